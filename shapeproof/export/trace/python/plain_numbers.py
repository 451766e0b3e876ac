"""Symbolic versions of Python's functions: `int`, `len`, `isinstance`, `math.sqrt` and others.

Each function also takes plain values, for which it is Python's own. Where torch cannot follow a size any further, the
function asks for a plain number, a question like any other.
"""

from __future__ import annotations

import contextlib
import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from types import BuiltinFunctionType
from typing import TYPE_CHECKING, Any

import torch

from shapeproof.export.shim.numbers.conditions import UNREADABLE
from shapeproof.export.shim.numbers.sym_nodes import is_finite
from shapeproof.export.shim.numbers.symbols import PLAIN
from shapeproof.export.trace.python.distinct import Distinct
from shapeproof.export.trace.python.ranges import Range
from shapeproof.export.trace.python.whether_traced import ASKING
from shapeproof.export.trace.translate import Untranslatable

if TYPE_CHECKING:
    from shapeproof.export.trace.shape_env import ProofShapeEnv


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, torch.Tensor) else value


def _whole(value: Any) -> Any:
    """Return a symbolic bool as the number 0 or 1, as Python does."""
    return torch.sym_ite(value, 1, 0) if isinstance(value, torch.SymBool) else value


def _int(*args: Any, **kwargs: Any) -> Any:
    value = _whole(_number(args[0])) if len(args) == 1 else None
    return torch.sym_int(value) if isinstance(value, torch.SymInt | torch.SymFloat) else int(*args, **kwargs)


def _float(*args: Any) -> Any:
    value = _number(args[0]) if args else None
    return torch.sym_float(value) if isinstance(value, torch.SymInt | torch.SymFloat) else float(*args)


def _len(value: Any) -> Any:
    if type(value) is Range:
        return value.length
    return value.shape[0] if isinstance(value, torch.Tensor) and value.dim() else len(value)


def _divmod(value: Any, divisor: Any) -> Any:
    symbolic = isinstance(value, torch.SymInt | torch.SymFloat) or isinstance(divisor, torch.SymInt | torch.SymFloat)
    return (value // divisor, value % divisor) if symbolic else divmod(value, divisor)


_PYTHONS = {"min": min, "max": max}
"""Python's own: torch's exporter replaces both, and its `max` of two tensors is NaN where one is."""


def _least(*args: Any, **kwargs: Any) -> Any:
    if _are_ratios(args, kwargs):
        return torch.sym_min(*args)
    return _of_tensors("min", operator.lt, args, kwargs) if _has_tensor(args) else min(*args, **kwargs)


def _largest(*args: Any, **kwargs: Any) -> Any:
    if _are_ratios(args, kwargs):
        return torch.sym_max(*args)
    return _of_tensors("max", operator.gt, args, kwargs) if _has_tensor(args) else max(*args, **kwargs)


def _are_ratios(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """True for two floats, one of them symbolic: Python would branch on a comparison. An int would stay an int."""
    floats = all(isinstance(value, float | torch.SymFloat) for value in args)
    return floats and len(args) == 2 and not kwargs and any(isinstance(value, torch.SymFloat) for value in args)


def _has_tensor(args: Sequence[Any]) -> bool:
    return any(isinstance(value, torch.Tensor) for value in _compared(args))


def _compared(args: Sequence[Any]) -> Sequence[Any]:
    """Return the values that `min` or `max` compares."""
    return args[0] if len(args) == 1 and isinstance(args[0], tuple | list) else args


def _of_tensors(name: str, better: Callable[[Any, Any], Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return what Python's `min` or `max` does: a question about data, but for tensors of one dtype with one number."""
    values = _compared(args)
    tensors = all(isinstance(each, torch.Tensor) and each.dim() == 0 for each in values)
    if kwargs or not tensors or len({each.dtype for each in values}) > 1:
        return _PYTHONS[name](*args, **kwargs)
    return functools.reduce(lambda found, each: torch.where(better(each, found), each, found), values)


def _round(number: Any, ndigits: Any = None) -> Any:
    """Round a number; a symbolic integer is rounded to tens or hundreds, ties to even, where torch does nothing."""
    if not isinstance(number, torch.SymInt) or ndigits is None or ndigits >= 0:
        return round(number, ndigits)
    unit = 10**-ndigits
    down, rest = number // unit, number % unit
    return (down + torch.sym_ite(2 * rest + down % 2 > unit, 1, 0)) * unit


def _range(*args: Any) -> Any:
    """Return a Range for symbolic ends; only its length is asked about, in a loop."""
    start, stop, step = {1: (0, *args, 1), 2: (*args, 1), 3: args}.get(len(args), (None, None, None))
    ends = {type(start), type(stop), type(step)}
    return Range(start, stop, step) if torch.SymInt in ends and ends <= {int, torch.SymInt} else range(*args)


def _set_as(kind: type) -> Callable[..., Any]:
    """Make a set that may contain symbolic sizes."""

    def made(*args: Any) -> Any:
        values = [list(each) for each in args[:1]]
        symbolic = any(isinstance(value, torch.SymInt) for each in values for value in each)
        return Distinct(*values) if symbolic and len(args) == 1 else kind(*values, *args[1:])

    vars(made)["makes"] = kind
    return made


def _isinstance(value: Any, kinds: Any) -> bool:
    """True if a value is an instance of `kinds`; a symbolic number has its class from eager."""
    return isinstance(PLAIN[type(value)]() if type(value) in PLAIN else value, kinds)


class _Matching(type):
    """Metaclass of the classes that replace `int`, `float` and `bool` in patterns.

    A symbolic number is an instance of its class in eager. The classes below derive from int and float, so that a
    pattern's one position is the number itself, as in `case int(n):`.
    """

    def __instancecheck__(cls, value: Any) -> bool:
        return _isinstance(value, cls.__dict__["of"])


class _Whole(int, metaclass=_Matching):
    of = int


class _Double(float, metaclass=_Matching):
    of = float


class _Flag(int, metaclass=_Matching):
    of = bool


def _type(*args: Any, **kwargs: Any) -> Any:
    """Return a value's class in eager; with more arguments, call `type`."""
    return type(*args, **kwargs) if len(args) != 1 else _class(args[0], type(args[0]))


def _class_read(value: Any) -> Any:
    return _class(value, value.__class__)


def _class(value: Any, kind: type) -> type:
    """Return the class in eager of a symbolic number, a tensor that replaces another, or a module in two places."""
    if isinstance(value, torch.Tensor) and kind.__module__.startswith("torch._subclasses."):
        return torch.nn.Parameter if isinstance(value, torch.nn.Parameter) else torch.Tensor
    stands_for = len(kind.__bases__) > 1 and kind.__bases__[0].__module__ == "torch.fx.experimental.proxy_tensor"
    return kind.__bases__[1] if stands_for else PLAIN.get(kind, kind)


def _map(function: Any, *iterables: Any) -> Any:
    """Map a function over values; one of Python's that a model hands over by name is the symbolic one."""
    return map(
        _MAPPED.get(function, function) if isinstance(function, type | BuiltinFunctionType) else function, *iterables
    )


def _sqrt(original: Callable[..., Any]) -> Callable[..., Any]:
    """Square root that takes symbolic sizes, too."""

    def sqrt(value: Any, *args: Any, **kwargs: Any) -> Any:
        symbolic = isinstance(value, torch.SymInt | torch.SymFloat)
        return torch.sym_sqrt(value) if symbolic else original(value, *args, **kwargs)

    return sqrt


def _pow(original: Callable[..., Any]) -> Callable[..., Any]:
    """Power of two floats, also of symbolic numbers, which torch's exporter would raise as integers."""

    def power(base: Any, exponent: Any) -> Any:
        symbolic = any(isinstance(each, torch.SymInt | torch.SymFloat) for each in (base, exponent))
        return torch.sym_float(base) ** torch.sym_float(exponent) if symbolic else original(base, exponent)

    return power


def _isnan(original: Callable[..., Any]) -> Callable[..., Any]:
    """True if a float is nan (`value != value`), also for symbolic floats."""
    return _asking(original, lambda value: value != value)  # noqa: PLR0124


def _isinf(original: Callable[..., Any]) -> Callable[..., Any]:
    return _asking(original, lambda value: torch.sym_not(is_finite(value)) & (value == value))  # noqa: PLR0124


def _isfinite(original: Callable[..., Any]) -> Callable[..., Any]:
    return _asking(original, is_finite)


def _asking(original: Callable[..., Any], asked: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return a predicate of `math` that answers for symbolic numbers, too."""

    def ask(value: Any) -> Any:
        symbolic = isinstance(value, torch.SymInt | torch.SymFloat)
        return asked(torch.sym_float(value)) if symbolic else original(value)

    return ask


def forgetting(original: Any) -> Callable[..., Any]:
    """Return a cached function that bypasses its cache for symbolic sizes, which Python cannot look up."""

    def called(*args: Any, **kwargs: Any) -> Any:
        symbolic = any(isinstance(value, torch.SymInt | torch.SymFloat) for value in (*args, *kwargs.values()))
        return (original.__wrapped__ if symbolic else original)(*args, **kwargs)

    return called


def _isqrt(original: Callable[..., Any]) -> Callable[..., Any]:
    """Integer square root that takes symbolic sizes, too. Where the double was rounded up, 1 is subtracted."""

    def isqrt(value: Any) -> Any:
        if not isinstance(value, torch.SymInt):
            return original(value)
        root = torch.sym_int(torch.sym_sqrt(value))
        return root - torch.sym_ite(root * root > value, 1, 0)

    return isqrt


def _gcd(original: Callable[..., Any]) -> Callable[..., Any]:
    """Greatest common divisor that takes symbolic sizes, too: by Euclid, whose loop branches like any other."""

    def gcd(*values: Any) -> Any:
        if not any(isinstance(value, torch.SymInt) for value in values):
            return original(*values)
        return functools.reduce(_divisor, values, 0)

    return gcd


def _divisor(found: Any, value: Any) -> Any:
    while value:
        found, value = value, found % value
    return abs(found)


def _deciding(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of torch that takes conditions on sizes as bools: each is decided, a branch like any other."""

    def called(*args: Any, **kwargs: Any) -> Any:
        decided = {name: bool(v) if isinstance(v, torch.SymBool) else v for name, v in kwargs.items()}
        return original(*args, **decided)

    return called


def _taking(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return torch.cond that takes a branch by itself, as eager does, where the sizes decide which.

    Dynamo reads both branches at the sizes of the trace, and a branch may fail at sizes at which it is not taken. Where
    dynamo cannot read them the condition is decided, like that of an `if`. What earlier decisions imply does not count:
    the program is to serve other sizes, too.
    """

    def cond(pred: Any, true_fn: Any, false_fn: Any, operands: Any = ()) -> Any:
        if not isinstance(pred, torch.SymBool):
            return original(pred, true_fn, false_fn, operands)
        if _known(pred.node) is None:
            with contextlib.suppress(UNREADABLE):
                return original(pred, true_fn, false_fn, operands)
        return (true_fn if pred else false_fn)(*operands)

    return cond


def _known(condition: Any) -> bool | None:
    """Return the value of a condition, given as torch's node, if it is the same wherever the trial begins."""
    env: ProofShapeEnv = condition.shape_env
    try:
        return env.trial.settled(env.translator.formula(condition.expr), env.trial.facts)
    except Untranslatable:
        return None


def bounded_by_numbers(index: Any) -> Any:
    """Return a tensor's index with each symbolic bool in a slice as a number: torch takes no bool there.

    >>> bounded_by_numbers((slice(None, 3), 0))
    (slice(None, 3, None), 0)
    """
    if isinstance(index, tuple):
        return tuple(map(bounded_by_numbers, index))
    return slice(*map(_whole, (index.start, index.stop, index.step))) if isinstance(index, slice) else index


CALLED: Mapping[str, Callable[..., Any]] = {  # "case ..." is a class in a pattern, "__class__" an attribute
    "int": _int,
    "float": _float,
    "len": _len,
    "divmod": _divmod,
    "min": _least,
    "max": _largest,
    "range": _range,
    "set": _set_as(set),
    "frozenset": _set_as(frozenset),
    "round": _round,
    "isinstance": _isinstance,
    "type": _type,
    "map": _map,
    "case int": _Whole,
    "case float": _Double,
    "case bool": _Flag,
    "__class__": _class_read,
}
_MAPPED: Mapping[Any, Callable[..., Any]] = {
    int: _int,
    float: _float,
    len: _len,
    divmod: _divmod,
    min: _least,
    max: _largest,
    round: _round,
    type: _type,
}
MEMBERS: Mapping[str, Mapping[str, Callable[..., Any]]] = {
    "math": {
        "sqrt": _sqrt,
        "pow": _pow,
        "isqrt": _isqrt,
        "gcd": _gcd,
        "isnan": _isnan,
        "isinf": _isinf,
        "isfinite": _isfinite,
    },
    "builtins": {"isinstance": lambda _: _isinstance, "type": lambda _: _type},
    "numpy": {"sqrt": _sqrt},
    "torch": {"cond": _taking},
    "torch.nn.functional": {"scaled_dot_product_attention": _deciding},
    **ASKING,
}
"""Functions of modules, and the makers of their symbolic versions."""
NAMES = {name: f"symbolic {name}" for name in CALLED if name != "__class__"}
"""Their global names where dynamo reads the code: dynamo allows no function as a constant."""
FUNCTIONS: Mapping[Any, Callable[..., Any]] = {
    math.sqrt: _sqrt,
    math.pow: _pow,
    math.isqrt: _isqrt,
    math.gcd: _gcd,
    math.isnan: _isnan,
    math.isinf: _isinf,
    math.isfinite: _isfinite,
    torch.cond: _taking,
    torch.nn.functional.scaled_dot_product_attention: _deciding,
}
"""Functions that a model may import by name."""
WITHIN: Mapping[str, tuple[str, ...]] = {"torch": ("nn", "compiler", "_dynamo", "_utils"), "torch.nn": ("functional",)}
"""Submodules on the way to these functions."""
