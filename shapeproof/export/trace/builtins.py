"""Python's `int`, `float` and `len` give plain numbers, and so would freeze a size; in a trace they do not.

Python lets no object decide what `int(n)` is, and torch can follow `torch.sym_int(n)` alone. So while a model is traced
its functions run other code, which calls the functions below where the model's calls those three, or `divmod`, or one
of a few functions that want a plain number or bool (`math.sqrt`); so do the functions that they may call: those of the
classes they meet, by a global name, in their closures, in a list or dict. They stay the objects that they are: a model
may look one up in a table. Afterwards each function and each module is as it was. What belongs to torch or to Python is
left as it is.

Nothing is decided here. Eager runs the model's own code: a replay shows where the two do not agree.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import torch

from shapeproof.export.shim.one_thread import one_thread
from shapeproof.export.shim.sym_nodes import is_finite
from shapeproof.export.shim.symbols import PLAIN
from shapeproof.export.trace.distinct import Distinct
from shapeproof.export.trace.ranges import Range
from shapeproof.export.trace.remembering import Remembered
from shapeproof.export.trace.rewriting import assigned, global_names, rewritten

_FOREIGN = {"torch", "shapeproof", *sys.stdlib_module_names}
_REMEMBERING = type(functools.cache(lambda: None))
"""A function behind functools.cache or lru_cache."""


def fresh_copy(mod: torch.nn.Module) -> torch.nn.Module:
    """A copy that shares parameters and buffers but no Python state, so that no trace sees what another has changed."""
    shared = {id(tensor): tensor for tensor in [*mod.parameters(), *mod.buffers()]}
    return copy.deepcopy(mod, shared)


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, torch.Tensor) else value


def _whole(value: Any) -> Any:
    """A symbolic bool as the number that Python takes it for."""
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


def _least(*args: Any, **kwargs: Any) -> Any:
    return torch.sym_min(*args) if _are_ratios(args, kwargs) else min(*args, **kwargs)


def _largest(*args: Any, **kwargs: Any) -> Any:
    return torch.sym_max(*args) if _are_ratios(args, kwargs) else max(*args, **kwargs)


def _are_ratios(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether these are two floats, one symbolic: Python would compare them, a branch. An int would stay an int."""
    floats = all(isinstance(value, float | torch.SymFloat) for value in args)
    return floats and len(args) == 2 and not kwargs and any(isinstance(value, torch.SymFloat) for value in args)


def _round(number: Any, ndigits: Any = None) -> Any:
    """Torch leaves an integer as it is. Python rounds it to tens, hundreds, ..., a half to the even one."""
    if not isinstance(number, torch.SymInt) or ndigits is None or ndigits >= 0:
        return round(number, ndigits)
    unit = 10**-ndigits
    down, rest = number // unit, number % unit
    return (down + torch.sym_ite(2 * rest + down % 2 > unit, 1, 0)) * unit


def _range(*args: Any) -> Any:
    """How often a loop goes round is what it asks of a size: it gives other numbers only where that is another."""
    start, stop, step = {1: (0, *args, 1), 2: (*args, 1), 3: args}.get(len(args), (None, None, None))
    ends = {type(start), type(stop), type(step)}
    return Range(start, stop, step) if torch.SymInt in ends and ends <= {int, torch.SymInt} else range(*args)


def _set_as(kind: type) -> Callable[..., Any]:
    """A set, of sizes too."""

    def made(*args: Any) -> Any:
        values = [list(each) for each in args[:1]]
        symbolic = any(isinstance(value, torch.SymInt) for each in values for value in each)
        return Distinct(*values) if symbolic and len(args) == 1 else kind(*values, *args[1:])

    vars(made)["makes"] = kind
    return made


def _isinstance(value: Any, kinds: Any) -> bool:
    """A symbolic number is of the class that it is of in eager."""
    return isinstance(PLAIN[type(value)]() if type(value) in PLAIN else value, kinds)


class _Matching(type):
    """The class of what stands for a class in a pattern: a symbolic number is of the one that it is of in eager.

    Those below come from int and float, so that a pattern's one position is the number itself, as in `case int(n):`.
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
    """Of a symbolic number, or of a tensor that stands for another, the class that it is of in eager."""
    made = type(*args, **kwargs)
    if len(args) != 1:
        return made
    if isinstance(args[0], torch.Tensor) and made.__module__.startswith("torch._subclasses."):
        return torch.nn.Parameter if isinstance(args[0], torch.nn.Parameter) else torch.Tensor
    return PLAIN.get(made, made)


def _sqrt(original: Callable[..., Any]) -> Callable[..., Any]:
    """A square root, of sizes too."""

    def sqrt(value: Any, *args: Any, **kwargs: Any) -> Any:
        symbolic = isinstance(value, torch.SymInt | torch.SymFloat)
        return torch.sym_sqrt(value) if symbolic else original(value, *args, **kwargs)

    return sqrt


def _isnan(original: Callable[..., Any]) -> Callable[..., Any]:
    """Whether a float, symbolic too, is nan: nothing else differs from itself."""
    return _asking(original, lambda value: value != value)  # noqa: PLR0124


def _isinf(original: Callable[..., Any]) -> Callable[..., Any]:
    return _asking(original, lambda value: torch.sym_not(is_finite(value)) & (value == value))  # noqa: PLR0124


def _isfinite(original: Callable[..., Any]) -> Callable[..., Any]:
    return _asking(original, is_finite)


def _asking(original: Callable[..., Any], asked: Callable[[Any], Any]) -> Callable[..., Any]:
    """A question of `math` about a float, which Python answers for plain ones."""

    def ask(value: Any) -> Any:
        symbolic = isinstance(value, torch.SymInt | torch.SymFloat)
        return asked(torch.sym_float(value)) if symbolic else original(value)

    return ask


def _forgetting(original: Any) -> Callable[..., Any]:
    """A function behind a cache: run without it where it is given a size, which Python cannot look up."""

    def called(*args: Any, **kwargs: Any) -> Any:
        symbolic = any(isinstance(value, torch.SymInt | torch.SymFloat) for value in (*args, *kwargs.values()))
        return (original.__wrapped__ if symbolic else original)(*args, **kwargs)

    return called


def _isqrt(original: Callable[..., Any]) -> Callable[..., Any]:
    """The whole part of a square root, of sizes too. What is rounded up from a double is one too many."""

    def isqrt(value: Any) -> Any:
        if not isinstance(value, torch.SymInt):
            return original(value)
        root = torch.sym_int(torch.sym_sqrt(value))
        return root - torch.sym_ite(root * root > value, 1, 0)

    return isqrt


def _gcd(original: Callable[..., Any]) -> Callable[..., Any]:
    """A greatest common divisor, of sizes too: by Euclid, whose turns are branches like any."""

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
    """A function of torch that takes no condition on sizes for a bool: it is given the bool, a branch like any."""

    def called(*args: Any, **kwargs: Any) -> Any:
        decided = {name: bool(v) if isinstance(v, torch.SymBool) else v for name, v in kwargs.items()}
        return original(*args, **decided)

    return called


def bounded_by_numbers(index: Any) -> Any:
    """The index of a tensor, with a number in each slice where it has a symbolic bool, which torch does not take.

    >>> bounded_by_numbers((slice(None, 3), 0))
    (slice(None, 3, None), 0)
    """
    if isinstance(index, tuple):
        return tuple(map(bounded_by_numbers, index))
    return slice(*map(_whole, (index.start, index.stop, index.step))) if isinstance(index, slice) else index


_CALLED: Mapping[str, Callable[..., Any]] = {  # "case ..." is a class in a pattern
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
    "case int": _Whole,
    "case float": _Double,
    "case bool": _Flag,
}
_NAMES = {name: f"symbolic {name}" for name in _CALLED}
"""The global names they go by; none that a model can have."""
_MEMBERS: Mapping[str, Mapping[str, Callable[..., Any]]] = {
    "math": {
        "sqrt": _sqrt,
        "isqrt": _isqrt,
        "gcd": _gcd,
        "isnan": _isnan,
        "isinf": _isinf,
        "isfinite": _isfinite,
    },
    "numpy": {"sqrt": _sqrt},
    "torch.nn.functional": {"scaled_dot_product_attention": _deciding},
}
"""Functions of modules, and what is made of each."""
_FUNCTIONS: Mapping[Any, Callable[..., Any]] = {
    math.sqrt: _sqrt,
    math.isqrt: _isqrt,
    math.gcd: _gcd,
    math.isnan: _isnan,
    math.isinf: _isinf,
    math.isfinite: _isfinite,
    torch.nn.functional.scaled_dot_product_attention: _deciding,
}
"""Those that are imported by name."""
_WITHIN: Mapping[str, str] = {"torch": "nn", "torch.nn": "functional"}
"""The way from a module to one of these."""


@contextlib.contextmanager
def kept_symbolic(model: torch.nn.Module) -> Iterator[frozenset[str]]:
    """Have a model, a copy made for one trace, keep sizes where its code asks for plain numbers, while this lasts.

    The value is the names that its code uses.

    >>> class Half(torch.nn.Module):
    ...     def forward(self, x):
    ...         return x[: int(x.shape[0] / 2)]
    >>> half = Half()
    >>> with kept_symbolic(half):
    ...     half(torch.arange(5))
    tensor([0, 1])
    """
    rewriting = _Rewriting()
    for module in model.modules():
        rewriting.meet(type(module))
        for name, value in list(vars(module).items()):
            rewriting.meet(type(value))
            made = rewriting.member(value)
            if made is not None:
                vars(module)[name] = made
    with one_thread, contextlib.ExitStack() as after:
        members = list(rewriting.members())
        after.callback(rewriting.remembered.bring_back)
        for cls, name, made in members:
            after.callback(setattr, cls, name, vars(cls)[name])
            setattr(cls, name, made)
        for scope, name, made in rewriting.globals():
            after.callback(_put_back, scope, name, made, scope.get(name, _NOTHING))
            scope[name] = made
        for function, code in rewriting.codes.items():
            after.callback(setattr, function, "__code__", function.__code__)
            function.__code__ = code
        for cell, made in rewriting.cells:
            after.callback(setattr, cell, "cell_contents", cell.cell_contents)
            cell.cell_contents = made
        yield frozenset(rewriting.names)


_NOTHING = object()
_HEAP = 1 << 9
"""The flag of a class that is made by running Python code."""


def _put_back(scope: dict[str, Any], name: str, made: Any, value: Any) -> None:
    """A global name stands for what it did, but for one that the model has assigned meanwhile."""
    if scope.get(name) is not made:
        return
    if value is _NOTHING:
        del scope[name]
    else:
        scope[name] = value


def _is_foreign(value: Any) -> bool:
    home = value.__name__ if isinstance(value, ModuleType) else value.__module__
    if home == "builtins":  # so says what `exec` makes, too
        return not (isinstance(value, FunctionType) or (isinstance(value, type) and value.__flags__ & _HEAP))
    return (home or "").partition(".")[0] in _FOREIGN


class _Rewriting:
    """Finds the functions that a model may call, each once, and the code that each is to run."""

    def __init__(self) -> None:
        self._seen: set[FunctionType] = set()
        self._classes: dict[type, None] = {}
        self.codes: dict[FunctionType, CodeType] = {}
        self.cells: list[tuple[CellType, Any]] = []
        """What is in a closure meanwhile."""
        self.names = {"forward", "__call__", "__init__", "__getitem__"}
        self._globals: dict[tuple[int, str], tuple[dict[str, Any], str, Any]] = {}
        self._reached: set[tuple[int, frozenset[str]]] = set()
        self._copies: dict[str, ModuleType] = {}
        self.remembered = Remembered()

    def meet(self, cls: type) -> None:
        """Functions of a class, and of its bases, may be called."""
        self._classes |= dict.fromkeys(each for each in cls.__mro__ if not _is_foreign(each))

    def members(self) -> Iterator[tuple[type, str, Any]]:
        """What is exchanged in classes that are met, of what goes by a name that is used."""
        seen: set[tuple[type, str]] = set()
        while found := self._used() - seen:
            seen |= found
            for cls, name in found:
                self._hold(vars(cls)[name])
                made = self.member(vars(cls)[name])
                if made is not None:
                    yield cls, name, made

    def globals(self) -> list[tuple[dict[str, Any], str, Any]]:
        """What stands for global names meanwhile: the names of each module, as a dict, one of them, and the value."""
        return list(self._globals.values())

    def _used(self) -> set[tuple[type, str]]:
        return {(cls, name) for cls in self._classes for name in vars(cls) if name in self.names}

    def member(self, value: Any) -> Any:
        """What an object or a class has in place of a value meanwhile; None for the value itself."""
        match value:
            case FunctionType():
                self._find(value)
            case MethodType():
                found = self.member(value.__func__)
                return found and MethodType(found, value.__self__)
            case staticmethod() | classmethod():
                found = self.member(value.__func__)
                return found and type(value)(found)
            case functools.partial():
                found = self.member(value.func)
                return found and functools.partial(found, *value.args, **value.keywords)
            case _ if isinstance(value, _REMEMBERING):
                self.member(value.__wrapped__)
                return _forgetting(value)
            case property():
                found = self.member(value.fget)
                return found and property(found, value.fset, value.fdel, value.__doc__)
        return None

    def _find(self, function: FunctionType) -> None:
        """Find the code that a function is to run, and what it may call."""
        if function in self._seen or _is_foreign(function):
            return
        self._seen.add(function)
        code = function.__code__
        names = global_names(code)
        self.names |= names
        scope = function.__globals__
        self._reach(scope, names)
        for name in assigned(code):
            self.remembered.global_name(scope, name)
        for cell in function.__closure__ or ():
            self._look_into(cell, names)
        if _CALLED.keys().isdisjoint(scope):
            code = rewritten(code, code.co_filename, frozenset(_NAMES.items()))
        if code is not function.__code__:
            self.codes[function] = code
            for name, found in _CALLED.items():
                self._exchange(scope, _NAMES[name], found)

    def _reach(self, scope: dict[str, Any], names: frozenset[str]) -> None:
        """What these global names stand for may be called."""
        if (id(scope), names) in self._reached:
            return
        self._reached.add((id(scope), names))
        for name in names & scope.keys():
            self._hold(scope[name])
            found = self._value(scope[name], names)
            if found is not None:
                self._exchange(scope, name, found)

    def _exchange(self, scope: dict[str, Any], name: str, value: Any) -> None:
        self._globals[id(scope), name] = (scope, name, value)

    def _value(self, value: Any, names: frozenset[str]) -> Any:
        """What stands in place of a value for a function that uses these names; None for the value itself."""
        if isinstance(value, FunctionType | _REMEMBERING):
            return self.member(value)
        if isinstance(value, ModuleType):
            return self._exchanged(value, names)
        if isinstance(value, type):
            self.meet(value)
            return None
        return _FUNCTIONS[value](value) if isinstance(value, BuiltinFunctionType) and value in _FUNCTIONS else None

    def _exchanged(self, module: ModuleType, names: frozenset[str]) -> ModuleType | None:
        """A copy of a module that is not the user's with functions made anew; None if these names reach none.

        A module of the user's stays what it is: what its names stand for is exchanged.
        """
        members = _MEMBERS.get(module.__name__, {})
        if not members and not _is_foreign(module):
            self._reach(vars(module), names)
        found: dict[str, Any] = {name: make(getattr(module, name)) for name, make in members.items() if name in names}
        inner = _WITHIN.get(module.__name__)
        if inner in names:
            found[inner] = self._exchanged(getattr(module, inner), names)
        found = {name: value for name, value in found.items() if value is not None}
        if not found:
            return None
        made = self._copies.setdefault(module.__name__, ModuleType(module.__name__, module.__doc__))
        vars(made).update({**vars(module), **vars(made), **found})
        return made

    def _look_into(self, cell: CellType, names: frozenset[str]) -> None:
        try:
            value = cell.cell_contents
        except ValueError:  # it is empty
            return
        self._hold(value)
        found = self._value(value, names)
        if found is not None:
            self.cells.append((cell, found))

    def _hold(self, value: Any) -> None:
        """What a container holds may be called, and the model may put something into it."""
        self.remembered.container(value)
        if type(value) in {dict, list, tuple}:
            for each in list(value.values() if isinstance(value, dict) else value):
                self.member(each)
