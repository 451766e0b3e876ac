"""Symbolic numbers whose float arithmetic stays as Python wrote it.

Torch's SymNode builds sympy expressions, and sympy computes over the reals. A ProofSymNode builds the expressions of
doubles.py instead if an operand is a float; torch handles integers and bools. Where torch's SymFloat differs from
Python's float, Python's rule applies: `a // b` is not `floor(a / b)`, an integer is compared as an integer and not as a
float, and `min(0.5, nan)` is not `min(nan, 0.5)`.

Law: an operation on these nodes is recorded as the one operation that Python computes, its operands in order, and the
expression of its node means exactly that operation. If Python raises for some operands, the program checks them, even
if the result is unused.
"""

from __future__ import annotations

import functools
import math
import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import FrameType
from typing import Any, TypeVar

import sympy
import torch
import torch.utils._sympy.functions as fn
from torch._guards import Source
from torch.fx.experimental import sym_node
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing, get_proxy_mode, handle_sym_dispatch
from torch.fx.experimental.sym_node import SymNode, to_node
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._sympy.symbol import SymT, make_symbol
from torch.utils._sympy.value_ranges import ValueRanges

from shapeproof.constraints.meaning.intervals import Interval
from shapeproof.export.shim.numbers.doubles import COMPARISONS, FUNCTIONS, Double, literal, operation, value_of
from shapeproof.export.shim.numbers.symbols import merges, value_range
from shapeproof.export.shim.replaced import replaced
from shapeproof.plain import Saving, saves_time

_T = TypeVar("_T")
wrap_node: Callable[[SymNode], Any] = sym_node.wrap_node
_COMPARING = {method: sign for sign, (method, _) in COMPARISONS.items()}
_OPERATIONS = {
    **{name: name for name in ("add", "sub", "mul", "mod", "neg", "abs")},
    "float_pow": "pow",
    "float_truediv": "truediv",
    "sym_min": "min",
    "sym_max": "max",
    **{f"sym_{name}": name for name in FUNCTIONS},
    **_COMPARING,
}
"""From a node's method to the float operation."""
_TO_INTEGER = frozenset({"floor", "ceil", "trunc"})
_FLOOR_DIVISIONS = {
    getattr(cls, name).__code__: name
    for cls in (torch.SymFloat, torch.SymInt)
    for name in ("__floordiv__", "__rfloordiv__")
}
BY_ZERO = "division by zero"
"""The message of the check for a division."""
NEGATIVE_SHIFT = "negative shift count"
NEGATIVE_POWER = "0.0 cannot be raised to a negative power"
OUT_OF_DOMAIN = "math domain error"
NO_INTEGER = "cannot convert float to integer"
RAISED_BY_PYTHON: dict[str, frozenset[type[Exception]]] = {
    BY_ZERO: frozenset({ZeroDivisionError}),
    NEGATIVE_SHIFT: frozenset({ValueError}),
    NEGATIVE_POWER: frozenset({ZeroDivisionError}),
    OUT_OF_DOMAIN: frozenset({ValueError}),
    NO_INTEGER: frozenset({ValueError, OverflowError}),
}
"""From the message of a check on numbers to the exceptions that Python raises in its place."""
_PRECONDITIONS: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    **dict.fromkeys(("int_floordiv", "mod", "int_truediv"), (lambda _, divisor: divisor != 0, BY_ZERO)),
    **dict.fromkeys(("lshift", "rshift"), (lambda _, count: count >= 0, NEGATIVE_SHIFT)),
}
"""From an operation on integers to the condition on its operands without which Python raises."""
_OF_FLOATS: dict[str, tuple[Callable[..., Any], str]] = {
    **dict.fromkeys(("floordiv", "mod", "truediv"), (lambda _, divisor: divisor != 0.0, BY_ZERO)),
    "pow": (lambda base, exponent: torch.sym_not((base == 0.0) & (exponent < 0.0)), NEGATIVE_POWER),
    "sqrt": (lambda value: torch.sym_not(value < 0.0), OUT_OF_DOMAIN),
    "log2": (lambda value: torch.sym_not(value <= 0.0), OUT_OF_DOMAIN),
    **dict.fromkeys(("asin", "acos"), (lambda value: torch.sym_not((value < -1.0) | (value > 1.0)), OUT_OF_DOMAIN)),
}
"""The same of operations on floats."""
_REMEMBERED = _COMPARING.keys() | {"add", "sub", "mul", "sym_min", "sym_max"}
"""Operations on two integers whose expression follows from the expressions of their operands, and that never raise."""
_DIVISIONS = frozenset({"int_floordiv", "mod"})
"""The same, once it is checked that the divisor is not 0."""
_IN_ORDER = frozenset({torch.sym_min.__code__, torch.sym_max.__code__})
_POWER = torch.SymFloat.__pow__.__code__
_DEPTH = 12
"""How many outer frames are searched for torch's own code."""


class ProofSymNode(SymNode):
    """A SymNode that is exact about floats."""

    promoted: SymNode | None = None
    """The integer from which torch has made this float for a comparison."""
    divided: tuple[SymNode, SymNode] | None = None
    """The operands of `a // b` on floats, for which torch uses this integer."""

    def bool_(self) -> bool:
        """Test the truth of a number: a float is true if it is not 0, so nan is true."""
        return bool(wrap_node(self.ne(self.wrap_float(0.0)))) if self.is_float() else super().bool_()

    def _exactly(self, method: str, *others: SymNode) -> SymNode:
        """Return the result of a float operation, as Python computes it."""
        nodes: tuple[SymNode, ...] = (self, *others)
        if method in _COMPARING:
            nodes = tuple(getattr(node, "promoted", None) or node for node in nodes)
        if method in {"sym_min", "sym_max"} and _is_swapped(sys._getframe(4)):
            nodes = nodes[::-1]
        return _computed(sym_node.method_to_operator(method), _OPERATIONS[method], *nodes)

    def _to_integer(self, method: str) -> SymNode:
        """Round a float to an integer, by operators that torch can save.

        Law: `floor(x)` is `int(x // 1.0)`, and `ceil(x)` is `-floor(-x)`.
        """
        if method == "floor" and sys._getframe(4).f_code in _FLOOR_DIVISIONS:
            return self._for_floor_division(sys._getframe(4))
        _demand_finite(self)
        if method == "trunc":
            if get_proxy_mode():
                return _recorded(math.trunc, self)
            _environment(self).before(math.trunc, self)
            return _made(self, fn.TruncToInt(_expression(self)), int, math.trunc)
        value = wrap_node(self)
        with _demanded(self):
            whole = math.trunc(value // 1.0) if method == "floor" else -math.trunc(-value // 1.0)
        return _node_of(self, whole)

    def _asks_whether_whole(self) -> SymNode:
        """Return the condition that a float is an integer; infinities and nan are not integers."""
        environment = _environment(self)
        value = wrap_node(self)
        if environment.may_be_infinite(_expression(self)):
            return _node_of(self, is_finite(value) & (value // 1.0 == value))
        return _node_of(self, torch.sym_float(math.floor(value)) == value)

    def _for_floor_division(self, frame: FrameType) -> SymNode:
        """Prepare `a // b`, which torch computes as `float(floor(a / b))`: keep the operands for the next step."""
        sides = [to_node(self, torch.sym_float(frame.f_locals[name])) for name in ("self", "other")]
        left, right = reversed(sides) if _FLOOR_DIVISIONS[frame.f_code] == "__rfloordiv__" else sides
        floored = ProofSymNode(fn.FloorToInt(_expression(self)), self.shape_env, int, sym_node._NO_HINT)
        floored.divided = (left, right)
        return floored

    def _to_float(self, torchs: Callable[[SymNode], SymNode]) -> SymNode:
        """Convert an integer to a float."""
        if self.divided is not None:
            return _computed(operator.floordiv, "floordiv", *self.divided)
        made = exact(torchs(self))
        if isinstance(made, ProofSymNode) and self.is_int():
            promoting = _caller(lambda frame: frame.f_code.co_name == "promote2", sys._getframe(1))
            made.promoted = made.promoted if promoting is None else self
        return made

    def _round(self, ndigits: int | None = None) -> SymNode:
        """Round to an integer, or to a number of digits, which gives a float."""
        ndigits = None if ndigits is None else int(ndigits)
        if ndigits is None:
            _demand_finite(self)
        if get_proxy_mode():
            return _recorded(round, self, *(() if ndigits is None else (ndigits,)))
        if ndigits is None:
            _environment(self).before(round, self)
            whole = operation("round", _expression(self), sympy.Integer(0))
            return _made(self, fn.TruncToInt(whole), int, round)
        expr = operation("round", _expression(self), sympy.Integer(ndigits))
        return _made(self, expr, float, lambda value: round(value, ndigits))


class ExactShapeEnv(ShapeEnv):
    """A ShapeEnv whose symbolic numbers are exact about floats."""

    has_demanded = False
    """True while the preconditions of the current operation are already checked: do not check them again."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.operations: dict[tuple[Any, ...], tuple[Any, type, bool]] = {}
        """For an operation and the expressions of its operands: the expression of the result, its type, and torch's
        note that it is a plain sum. Torch keeps the same table from 2.15 on."""

    def demand(self, condition: torch.SymBool, message: str) -> None:
        """Check a condition that Python checks: if it is false, eager raises."""
        raise NotImplementedError

    def may_be_infinite(self, expr: sympy.Expr) -> bool:
        """True if a float may be an infinity or nan."""
        raise NotImplementedError

    def range_of(self, expr: sympy.Expr) -> Any:
        """Return torch's value range of an integer that is computed by operations on doubles."""
        raise NotImplementedError

    def before(self, function: Any, node: Any) -> None:
        """Receive notice of a function that is about to be computed, with its first operand."""
        raise NotImplementedError

    def _create_fx_call_function(self, op: Any, *_: object) -> tuple[None, bool]:
        """Handle each operation of torch's own."""
        self.before(op, sys._getframe(1).f_locals.get("self"))
        return None, False

    def bound_sympy(self, expr: sympy.Expr, size_oblivious: bool = False) -> ValueRanges[Any]:  # noqa: FBT001, FBT002
        """Bound an expression as torch does; torch has no bounds for operations on doubles."""
        if not expr.has(Double):
            return super().bound_sympy(expr, size_oblivious)
        return self.range_of(expr) if expr.is_integer else ValueRanges.unknown()

    def size_symbol(self, source: Source, hint: int, bounds: Interval) -> sympy.Symbol:
        """Create the symbol of an input's size.

        Sympy learns at most that it is not negative, since with more `1 <= s0` would fold away.
        """
        positive = bounds.lower is not None and bounds.lower >= 0
        sign = {"nonnegative": True} if positive else {}
        created = make_symbol(SymT.SIZE, self._generate_unique_id(source.name), integer=True, **sign)
        getattr(self, "name_to_symbol", {})[created.name] = created  # torch's table of names, from 2.15 on
        self.backed_var_to_val[created] = sympy.Integer(hint)
        self.var_to_range[created] = value_range(bounds if positive else Interval())  # torch wants room at 0
        self.symbol_guard_counter[created] = 0
        self.source_to_var[source.name] = created
        self.var_to_sources[created] = [source]
        return created

    def note_example(self, number: object) -> None:
        """Set the hint of a symbolic number to its value at the hints of its symbols."""
        if isinstance(number, torch.SymInt | torch.SymFloat | torch.SymBool):
            value = number.node.expr.xreplace(self.backed_var_to_val)
            known = value_of(value) if isinstance(value, sympy.Expr) else bool(value) if value.is_Atom else None
            number.node._hint = None if known is None else number.node.pytype(known)

    def forget_operations(self) -> None:
        """Clear what is remembered of operations on expressions, here and (from 2.15 on) in torch."""
        self.operations.clear()
        getattr(self, "_symop_cache", {}).clear()


def exact(made: _T) -> _T:
    """Turn torch's node, or the node of a symbolic number, into a ProofSymNode, in place."""
    node = made.node if isinstance(made, torch.SymInt | torch.SymFloat | torch.SymBool) else made
    if type(node) is SymNode:
        node.__class__ = ProofSymNode
    return made


def powers() -> tuple[Any, bool] | None:
    """Return the base of the power that torch is checking now, and whether the exponent is an integer.

    Torch requires a base that is not negative. Python does not: with an integer exponent the power is a float, else a
    complex number, for which torch has no symbolic form.
    """
    frame = _caller(lambda frame: frame.f_code is _POWER, sys._getframe(1))
    if frame is None:
        return None
    return frame.f_locals["self"], is_whole(frame.f_locals["other"])


def is_whole(number: Any) -> bool:
    """True if a number is known to be an integer.

    >>> is_whole(2.0), is_whole(2.5)
    (True, False)
    """
    if isinstance(number, torch.SymFloat):
        return isinstance(number.node.expr, fn.ToFloat)
    return isinstance(number, torch.SymInt) or float(number).is_integer()


def _caller(wanted: Callable[[FrameType], bool], frame: FrameType | None) -> FrameType | None:
    for _ in range(_DEPTH):
        if frame is None or wanted(frame):
            return frame
        frame = frame.f_back
    return None


def _is_swapped(frame: FrameType) -> bool:
    """True if torch.sym_min or sym_max calls the method of its second operand, because the first is a plain number."""
    return frame.f_code in _IN_ORDER and not isinstance(frame.f_locals["a"], torch.SymInt | torch.SymFloat)


def _computed(function: Callable[..., Any], op: str, *nodes: SymNode) -> SymNode:
    """Return the result of an operation by its name in terms, recorded as this function."""
    if op in _OF_FLOATS:
        condition, message = _OF_FLOATS[op]
        _demand(nodes[0], lambda: condition(*map(wrap_node, nodes)), message)
    if get_proxy_mode():
        return _recorded(function, *nodes)
    _environment(nodes[0]).before(function, nodes[0])
    kind = bool if op in COMPARISONS else float
    return _made(nodes[0], operation(op, *map(_expression, nodes)), kind, function, *nodes[1:])


def _recorded(function: Callable[..., Any], node: SymNode, *others: Any) -> SymNode:
    """Return the result of a function that the tracer records and then calls."""
    operands = (wrap_node(node), *(wrap_node(other) if isinstance(other, SymNode) else other for other in others))
    with _demanded(node):
        return _node_of(node, handle_sym_dispatch(function, operands, {}))


def _node_of(beside: SymNode, number: Any) -> SymNode:
    node: SymNode = to_node(beside, number)
    return node


def _environment(node: SymNode) -> ExactShapeEnv:
    environment: Any = node.shape_env
    return environment


def _demanded(node: SymNode) -> AbstractContextManager[None]:
    """Skip precondition checks inside the block: they are done."""
    return replaced(_environment(node), has_demanded=True)


def _made(node: SymNode, expr: sympy.Basic, kind: type, function: Callable[..., Any], *others: SymNode) -> SymNode:
    """Return a node, with a hint if the operands have hints."""
    hints = [each.hint for each in (node, *others)]
    hint = sym_node._NO_HINT if None in hints else kind(function(*hints))
    return ProofSymNode(expr, node.shape_env, kind, hint)


def _expression(node: SymNode) -> sympy.Basic:
    """Return the meaning of a node; for a constant the number itself, since torch's expression of -0.0 is wrong."""
    return literal(node.constant) if isinstance(node.constant, float) else node.expr


def _demand_finite(node: SymNode) -> None:
    """Check that a float is finite: an infinity or nan has no integer."""
    environment = _environment(node)
    if environment.may_be_infinite(_expression(node)):
        value = wrap_node(node)
        _demand(node, lambda: is_finite(value), NO_INTEGER)


def is_finite(value: Any) -> Any:
    """True if a symbolic float is neither an infinity nor nan. Torch cannot load a comparison with an infinity.

    >>> [is_finite(value) for value in (1e308, float("inf"), float("nan"))]
    [True, False, False]
    """
    return (value <= sys.float_info.max) & (value >= -sys.float_info.max)


def _demand(node: SymNode, condition: Callable[[], Any], message: str) -> None:
    """Check a precondition of Python's before the computation."""
    environment = _environment(node)
    if environment.has_demanded:
        return
    found = condition()
    if isinstance(found, torch.SymBool):
        environment.demand(found, message)
    elif not found:
        raise next(iter(RAISED_BY_PYTHON[message]))(message)


def _defined(torchs: Callable[..., SymNode], method: str, *nodes: SymNode) -> SymNode:
    """Return the result of an operation on integers that raises for some of them, even if the result is unused.

    The condition is asked first: torch computes the hint ahead of anything else, which raises where the point does.
    """
    condition, message = _PRECONDITIONS[method]
    with disable_proxy_modes_tracing():
        _demand(nodes[0], lambda: condition(*map(wrap_node, nodes)), message)
    with _demanded(nodes[0]):
        if method in _DIVISIONS and get_proxy_mode() is None:
            return _divided(torchs, method, *nodes)
        return exact(torchs(*nodes))


def _divided(torchs: Callable[..., SymNode], method: str, node: SymNode, divisor: SymNode) -> SymNode:
    """Return a quotient or a remainder as Python computes it: `a // b` is `a*b // b**2`, and `a % b` `-(-a % -b)`.

    Torch has two by a negative divisor wrong: a quotient of a quotient, and `a % b` with `a < b < 0`, which it calls
    `a`.
    """
    if method == "int_floordiv" and merges(node.expr, divisor.expr):
        return _remembered(torchs, method, node.mul(divisor), divisor.mul(divisor))
    if method == "mod" and divisor.expr.is_nonpositive:
        return _remembered(torchs, method, node.neg(), divisor.neg()).neg()
    return _remembered(torchs, method, node, divisor)


def _remembered(torchs: Callable[..., SymNode], method: str, node: SymNode, other: SymNode) -> SymNode:
    """Return the result of an operation on integers as a new node, whose expression is built once.

    A comparison stays as it is written: the solver settles it, for which sympy would first collect what it assumes of
    each part.
    """
    if other.pytype is not int or not saves_time(Saving.EXPRESSIONS):
        return exact(torchs(node, other))
    environment, hints = _environment(node), (node.hint, other.hint)
    key = (method, node._expr, other._expr, environment._replacements_version_counter)
    known = environment.operations.get(key)
    if known is None and method in _COMPARING:
        known = _written(method, node.expr, other.expr)
    if known is None or any(type(hint) is not int for hint in hints):
        made = exact(torchs(node, other))
        environment.operations[key] = made._expr, made.pytype, made._optimized_summation
        return made
    environment.operations[key] = known
    expr, kind, plain = known
    hint = sym_node.method_to_operator(method)(*hints)
    return ProofSymNode(expr, environment, kind, hint, optimized_summation=plain)


def _written(method: str, left: sympy.Basic, right: sympy.Basic) -> tuple[sympy.Basic, type, bool] | None:
    """Return a comparison of two integers as it is written; None if sympy tells at once what it is."""
    if left == right or (left.is_number and right.is_number):
        return None
    return COMPARISONS[_COMPARING[method]][1](left, right, evaluate=False), bool, False


def _install(method: str) -> None:
    trailing = "_" if method in sym_node.magic_methods_on_operator_with_trailing_underscore else ""
    name = f"_{method}{trailing}"
    torchs: Callable[..., SymNode] = getattr(SymNode, name)

    def run(self: ProofSymNode, *others: SymNode) -> SymNode:
        floats = self.is_float() or any(isinstance(each, SymNode) and each.is_float() for each in others)
        if method == "is_integer":
            return self._asks_whether_whole()
        if self.is_int() and method in _TO_INTEGER:
            return self
        if floats and method in _OPERATIONS:
            return self._exactly(method, *others)
        if floats and method in _TO_INTEGER:
            return self._to_integer(method)
        if method == "sym_float":
            return self._to_float(torchs)
        if method in _REMEMBERED and self.pytype is int and get_proxy_mode() is None:
            return _remembered(torchs, method, self, *others)
        if method in _PRECONDITIONS:
            return _defined(torchs, method, self, *others)
        if method == "bitwise_xor":  # the one operator on integers that torch takes into no program
            return self.bitwise_or(*others).sub(self.bitwise_and(*others))
        return exact(torchs(self, *others))

    setattr(ProofSymNode, name, run)


for _method in (*sym_node.magic_methods, *sym_node.sizes_strides_methods):
    if _method != "round":
        _install(_method)


def _as_torch_does(torchs: Callable[..., _T]) -> Callable[..., _T]:
    """Return a method of torch's that makes a node or a symbolic number, with a ProofSymNode."""

    @functools.wraps(torchs)
    def make(*args: Any, **kwargs: Any) -> _T:
        return exact(torchs(*args, **kwargs))

    return make


_MAKING: Mapping[type, Sequence[str]] = {
    ProofSymNode: ("wrap_int", "wrap_float", "wrap_bool", "sym_sum"),
    ExactShapeEnv: (
        *("create_symintnode", "create_symfloatnode", "create_symboolnode"),
        *("create_unbacked_symint", "create_unbacked_symfloat", "create_unbacked_symbool"),
    ),
}
for _cls, _names in _MAKING.items():
    for _name in _names:
        setattr(_cls, _name, _as_torch_does(getattr(_cls, _name)))
