"""Symbolic versions of Python's functions: `int`, `len`, `isinstance`, `math.sqrt` and others.

Each function also takes plain values, for which it is Python's own. Where torch cannot follow a size any further, the
function asks for a plain number, a question like any other.

*Containers.* Python's own `range` takes plain numbers only, and its `set` looks elements up by hash.

A symbolic size has no hash. A range has the meaning of Python's: an iteration asks for the number of elements, and its
text for the ends. The ends, the length and the elements are sizes, and computing them asks nothing.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from types import BuiltinFunctionType, CodeType
from typing import TYPE_CHECKING, Any

import torch

from shapeproof.export.shim.numbers.sym_nodes import is_finite
from shapeproof.export.shim.numbers.symbols import PLAIN, UNREADABLE
from shapeproof.export.trace.python.whether_traced import ASKING
from shapeproof.export.trace.translate import Untranslatable

if TYPE_CHECKING:
    from shapeproof.export.trace.shape_env import ProofShapeEnv

_SYMBOLIC = (torch.SymInt, torch.SymFloat)


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, torch.Tensor) else value


def _whole(value: Any) -> Any:
    """Return a symbolic bool as the number 0 or 1, as Python does."""
    return torch.sym_ite(value, 1, 0) if isinstance(value, torch.SymBool) else value


def _int(*args: Any, **kwargs: Any) -> Any:
    value = _whole(_number(args[0])) if len(args) == 1 else None
    return torch.sym_int(value) if isinstance(value, _SYMBOLIC) else int(*args, **kwargs)


def _float(*args: Any) -> Any:
    value = _number(args[0]) if args else None
    return torch.sym_float(value) if isinstance(value, _SYMBOLIC) else float(*args)


def _len(value: Any) -> Any:
    if type(value) is Range:
        return value.length
    return value.shape[0] if isinstance(value, torch.Tensor) and value.dim() else len(value)


_PYTHONS = {"min": min, "max": max}
"""Python's own: torch's exporter replaces both, and its `max` of two tensors is NaN where one is."""


def _extreme(name: str, of_ratios: Callable[..., Any], better: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Make `min` or `max`, which takes symbolic numbers, too."""

    def extreme(*args: Any, **kwargs: Any) -> Any:
        if _are_ratios(args, kwargs):
            return of_ratios(*args)
        values = list(args[0]) if len(args) == 1 else args  # an iterator gives its values once
        given = (values,) if len(args) == 1 else args
        if not any(isinstance(value, torch.Tensor) for value in values):
            return getattr(builtins, name)(*given, **kwargs)
        if kwargs or not _are_numbers(values):
            return _PYTHONS[name](*given, **kwargs)
        return functools.reduce(lambda found, each: torch.where(better(each, found), each, found), values)

    return extreme


def _are_ratios(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """True for two floats, one of them symbolic: Python would branch on a comparison. An int would stay an int."""
    floats = all(isinstance(value, float | torch.SymFloat) for value in args)
    return floats and len(args) == 2 and not kwargs and any(isinstance(value, torch.SymFloat) for value in args)


def _are_numbers(values: Sequence[Any]) -> bool:
    """True for tensors of one dtype with one number each: which of any others is returned is a question about data."""
    tensors = all(isinstance(each, torch.Tensor) and each.dim() == 0 for each in values)
    return tensors and len({each.dtype for each in values}) == 1


_least = _extreme("min", torch.sym_min, operator.lt)
_largest = _extreme("max", torch.sym_max, operator.gt)


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


def _list(*args: Any) -> Any:
    return (rows_of(args[0]) if len(args) == 1 else None) or list(*args)


def rows_of(tensor: Any) -> Any:
    """Return the rows of a tensor as one value, if there is a symbolic number of them; None if they are taken apart."""
    number = tensor.shape[0] if isinstance(tensor, torch.Tensor) and tensor.dim() > 1 else None
    if not isinstance(number, torch.SymInt) or number.node.shape_env.row is not None:
        return None
    trial = number.node.shape_env.trial
    trial.parted = True
    return None if trial.parts is None else trial.parts(tensor)


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


def _where_symbolic(symbolic: Callable[..., Any], *kinds: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make functions that call `symbolic` if they get a symbolic number of these kinds, else the original."""

    def making(original: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            given = (isinstance(value, kinds or _SYMBOLIC) for value in (*args, *kwargs.values()))
            return (symbolic if any(given) else original)(*args, **kwargs)

        return called

    return making


_divmod = _where_symbolic(lambda value, divisor: (value // divisor, value % divisor))(divmod)
_sqrt = _where_symbolic(torch.sym_sqrt)

_pow = _where_symbolic(lambda base, exponent: torch.sym_float(base) ** torch.sym_float(exponent))
"""A power of floats: torch's exporter would make it one of integers."""


def _of_float(asked: Callable[[Any], Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make predicates of `math` that answer for symbolic numbers, too."""
    return _where_symbolic(lambda value: asked(torch.sym_float(value)))


_isnan = _of_float(lambda value: value != value)  # noqa: PLR0124
_isinf = _of_float(lambda value: torch.sym_not(is_finite(value)) & (value == value))  # noqa: PLR0124
_isfinite = _of_float(is_finite)


def forgetting(original: Any) -> Callable[..., Any]:
    """Return a cached function that bypasses its cache for symbolic sizes, which Python cannot look up."""
    return _where_symbolic(original.__wrapped__)(original)


def _root(value: torch.SymInt) -> Any:
    """Return the integer square root. Where the double was rounded up, 1 is subtracted."""
    root = torch.sym_int(torch.sym_sqrt(value))
    return root - torch.sym_ite(root * root > value, 1, 0)


def _divisor(found: Any, value: Any) -> Any:
    """Return the greatest common divisor by Euclid, whose loop branches like any other."""
    while value:
        found, value = value, found % value
    return abs(found)


_isqrt = _where_symbolic(_root, torch.SymInt)
_gcd = _where_symbolic(lambda *values: functools.reduce(_divisor, values, 0), torch.SymInt)


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
    "list": _list,
    "isinstance": _isinstance,
    "type": _type,
    "map": _map,
    "case int": _Whole,
    "case float": _Double,
    "case bool": _Flag,
    "__class__": lambda value: _class(value, value.__class__),
}
_BY_NAME = ("int", "float", "len", "divmod", "min", "max", "round", "type")
_MAPPED: Mapping[Any, Callable[..., Any]] = {getattr(builtins, name): CALLED[name] for name in _BY_NAME}
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
    value: make
    for module, members in MEMBERS.items()
    for name, make in members.items()
    if callable(value := getattr(sys.modules.get(module), name, None))
}
"""Functions that a model may import by name."""
WITHIN: Mapping[str, tuple[str, ...]] = {"torch": ("nn", "compiler", "_dynamo", "_utils"), "torch.nn": ("functional",)}
"""Submodules on the way to these functions."""


CodePlace = tuple[str, int, str]
"""The file, the first line and the name of a function."""


def place_of(code: CodeType) -> CodePlace:
    """Return where a function is written; its code may be rewritten."""
    return code.co_filename, code.co_firstlineno, code.co_name


class Range(Sequence[Any]):
    """The numbers `start`, `start + step`, and so on, before `stop`."""

    __slots__ = ("length", "start", "step", "stop")

    def __init__(self, start: Any, stop: Any, step: Any) -> None:
        if step == 0:
            raise ValueError("range() arg 3 must not be zero")
        self.start, self.stop, self.step = start, stop, step
        self.length = torch.sym_max(0, -((start - stop) // step))

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The class that `isinstance` sees."""
        return range

    def __len__(self) -> int:
        return int(self.length)

    def __bool__(self) -> bool:
        return bool(self.length > 0)

    def __iter__(self) -> Iterator[Any]:
        if isinstance(self.length, torch.SymInt) and type(self.step) is int and self.step == 1:
            self.length.node.shape_env.trial.loops.add(place_of(sys._getframe(1).f_code))  # noqa: SLF001 - it is the loop's
        return (self._at(number) for number in range(len(self)))

    def __reversed__(self) -> Iterator[Any]:
        return (self._at(number) for number in reversed(range(len(self))))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            taken = range(len(self))[index]
            return Range(self._at(taken.start), self._at(taken.stop), self.step * taken.step)
        number = index + self.length if index < 0 else index
        if number < 0 or number >= self.length:
            raise IndexError("range object index out of range")
        return self._at(number)

    def __contains__(self, value: object) -> bool:
        if not isinstance(value, int | torch.SymInt):
            return any(value == each for each in self)
        if self.step > 0:
            return bool(self.start <= value < self.stop and (value - self.start) % self.step == 0)
        return bool(self.stop < value <= self.start and (self.start - value) % -self.step == 0)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, range):
            return NotImplemented
        count = getattr(other, "length", None)
        count = len(other) if count is None else count
        if self.length != count:
            return False
        return bool(self.length == 0 or (self.start == other.start and (self.length == 1 or self.step == other.step)))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(range(*map(int, (self.start, self.stop, self.step))))

    def count(self, value: Any) -> int:
        """Return 1 if the value is among the numbers, else 0."""
        return int(value in self)

    def index(self, value: Any, *_: Any) -> Any:
        """Return the position of the value among the numbers."""
        if value not in self:
            raise ValueError(f"{value} is not in range")
        return (value - self.start) // self.step

    def _at(self, number: Any) -> Any:
        return self.start + self.step * number


class Distinct(AbstractSet[Any]):
    """A set of values: two sizes are compared when the second one is added; nothing else is asked."""

    __slots__ = ("_values",)

    def __init__(self, values: Iterable[Any]) -> None:
        self._values: list[Any] = []
        self._values += (value for value in values if value not in self)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The class that `isinstance` sees."""
        return set

    def __contains__(self, value: object) -> bool:
        return any(bool(value == each) for each in self._values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)
