"""Symbolic numbers whose float arithmetic stays as Python wrote it.

Torch's SymNode forms sympy expressions, and sympy computes over the reals. A node of this class forms those of
doubles.py instead wherever a float takes part; integers and bools are torch's business. What torch's SymFloat does
otherwise than Python's float is done as Python does it: `a // b` is no `floor(a / b)`, an integer is compared as it is
and not as a float, and `min(0.5, nan)` is not `min(nan, 0.5)`.

Law: an operation on these nodes is recorded as the one operation that Python computes, its operands in order, and the
expression of its node means just that. What raises in Python for some operands is checked, used or not.
"""

from __future__ import annotations

import contextlib
import math
import operator
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, TypeVar

import sympy
import torch
import torch.utils._sympy.functions as fn
from torch._guards import Source
from torch.fx.experimental import sym_node
from torch.fx.experimental.proxy_tensor import get_proxy_mode, handle_sym_dispatch
from torch.fx.experimental.sym_node import SymNode, to_node
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from shapeproof.export.shim.numbers.doubles import FUNCTIONS, literal, operation

_T = TypeVar("_T")
wrap_node: Callable[[SymNode], Any] = sym_node.wrap_node
_OPERATIONS = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "mod": "mod",
    "float_pow": "pow",
    "float_truediv": "truediv",
    "neg": "neg",
    "abs": "abs",
    "sym_min": "min",
    "sym_max": "max",
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
} | {f"sym_{name}": name for name in FUNCTIONS}
"""Methods of a node -> the float operation that each is."""
_TO_INTEGER = frozenset({"floor", "ceil", "trunc"})
_COMPARING = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
_FLOOR_DIVISIONS = {
    getattr(cls, name).__code__: name
    for cls in (torch.SymFloat, torch.SymInt)
    for name in ("__floordiv__", "__rfloordiv__")
}
_QUESTIONS = frozenset({_OPERATIONS[method] for method in _COMPARING})
_DIVISIONS = frozenset({operator.floordiv, operator.mod, operator.truediv})
BY_ZERO = "division by zero"
"""The message of the check that a division makes."""
_IN_ORDER = frozenset({torch.sym_min.__code__, torch.sym_max.__code__})
_POWER = torch.SymFloat.__pow__.__code__
_DEPTH = 12
"""How many frames further out torch's own code is looked for."""


class ProofSymNode(SymNode):
    """A SymNode that is exact about floats."""

    promoted: SymNode | None = None
    """Of a float that torch has made of an integer in order to compare it: the integer."""
    divided: tuple[SymNode, SymNode] | None = None
    """Of the integer that torch takes for `a // b` of floats: the floats."""

    def wrap_int(self, num: int) -> SymNode:
        """As torch's."""
        return exact(super().wrap_int(num))

    def wrap_float(self, num: float) -> SymNode:
        """As torch's."""
        return exact(super().wrap_float(num))

    def wrap_bool(self, num: bool) -> SymNode:  # noqa: FBT001 - torch's signature
        """As torch's."""
        return exact(super().wrap_bool(num))

    def sym_sum(self, args: Any) -> SymNode:
        """As torch's."""
        return exact(super().sym_sum(args))

    def bool_(self) -> bool:
        """A float is true if it is not 0; so is nan."""
        return bool(wrap_node(self.ne(self.wrap_float(0.0)))) if self.is_float() else super().bool_()

    def _exactly(self, method: str, *others: SymNode) -> SymNode:
        """The result of a float operation, as Python computes it."""
        nodes: tuple[SymNode, ...] = (self, *others)
        if method in _COMPARING:
            nodes = tuple(getattr(node, "promoted", None) or node for node in nodes)
        if method in {"sym_min", "sym_max"} and _is_swapped(sys._getframe(4)):
            nodes = nodes[::-1]
        return _computed(sym_node.method_to_operator(method), _OPERATIONS[method], *nodes)

    def _to_integer(self, method: str) -> SymNode:
        """The integer that a float is rounded to, by operators that torch can save.

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
        """Whether a float is an integer, which no infinity is and no nan."""
        environment = _environment(self)
        value = wrap_node(self)
        if environment.may_be_infinite(_expression(self)):
            return _node_of(self, is_finite(value) & (value // 1.0 == value))
        return _node_of(self, torch.sym_float(math.floor(value)) == value)

    def _for_floor_division(self, frame: FrameType) -> SymNode:
        """Torch is on its way from `a // b` to `float(floor(a / b))`: the next step will look for what is divided."""
        sides = [to_node(self, torch.sym_float(frame.f_locals[name])) for name in ("self", "other")]
        left, right = reversed(sides) if _FLOOR_DIVISIONS[frame.f_code] == "__rfloordiv__" else sides
        floored = ProofSymNode(fn.FloorToInt(_expression(self)), self.shape_env, int, sym_node._NO_HINT)
        floored.divided = (left, right)
        return floored

    def _to_float(self, torchs: Callable[[SymNode], SymNode]) -> SymNode:
        """A float of an integer."""
        if self.divided is not None:
            return _computed(operator.floordiv, "floordiv", *self.divided)
        made = exact(torchs(self))
        if isinstance(made, ProofSymNode) and self.is_int() and _is_called_by("promote2", sys._getframe(1)):
            made.promoted = self
        return made

    def _round(self, ndigits: int | None = None) -> SymNode:
        """Rounded to an integer, or to a number of digits, which is a float."""
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
    """Whether what an operation demands has been checked: it is computed for the tracer, or by others."""

    def demand(self, condition: torch.SymBool, message: str) -> None:
        """Check what Python checks: where it does not hold, eager raises."""
        raise NotImplementedError

    def may_be_infinite(self, expr: sympy.Expr) -> bool:
        """Whether a float may be an infinity or nan."""
        raise NotImplementedError

    def before(self, function: Any, node: Any) -> None:
        """Take notice of a function that is about to be computed, of this number first."""
        raise NotImplementedError

    def _create_fx_call_function(self, op: Any, *_: object) -> tuple[None, bool]:
        """Called for every operation of torch's own. Eager raises where a divisor is zero, used or not."""
        operands = sys._getframe(1).f_locals
        self.before(op, operands.get("self"))
        divisor = operands.get("other") if op in _DIVISIONS else None
        if isinstance(divisor, SymNode) and not divisor.expr.is_number:
            condition = wrap_node(divisor) != 0
            if isinstance(condition, torch.SymBool):
                self.demand(condition, BY_ZERO)
        return None, False

    def named(self, created: sympy.Symbol) -> sympy.Symbol:
        """A symbol that torch has not made, which it finds by its name where it keeps such a table (from 2.15 on)."""
        getattr(self, "name_to_symbol", {})[created.name] = created
        return created

    def forget_operations(self) -> None:
        """Have torch compute again what it remembers of operations on expressions (from 2.15 on)."""
        getattr(self, "_symop_cache", {}).clear()

    def create_symintnode(self, *args: Any, **kwargs: Any) -> Any:
        """As torch's."""
        return _of_ours(super().create_symintnode(*args, **kwargs))

    def create_symfloatnode(self, *args: Any, **kwargs: Any) -> Any:
        """As torch's."""
        return _of_ours(super().create_symfloatnode(*args, **kwargs))

    def create_symboolnode(self, sym: sympy.Expr) -> torch.SymBool:
        """As torch's."""
        return _of_ours(super().create_symboolnode(sym))

    def create_unbacked_symint(self, source: Source | None = None) -> torch.SymInt:
        """As torch's."""
        return _of_ours(super().create_unbacked_symint(source))

    def create_unbacked_symfloat(self) -> torch.SymFloat:
        """As torch's."""
        return _of_ours(super().create_unbacked_symfloat())

    def create_unbacked_symbool(self) -> torch.SymBool:
        """As torch's."""
        return _of_ours(super().create_unbacked_symbool())


def exact(node: SymNode) -> SymNode:
    """The node, made one of ours if it is torch's."""
    if type(node) is SymNode:
        node.__class__ = ProofSymNode
    return node


def _of_ours(number: _T) -> _T:
    """A symbolic number, whose node is one of ours from now on."""
    if isinstance(number, torch.SymInt | torch.SymFloat | torch.SymBool):
        exact(number.node)
    return number


def powers() -> tuple[Any, bool] | None:
    """The base of a power whose check by torch reaches the caller, and whether the exponent is whole.

    Torch demands that no base is negative. Python demands it of none: by what is whole the power is a float, else a
    complex number, which torch has no symbolic form of.
    """
    frame = _caller(lambda frame: frame.f_code is _POWER, sys._getframe(1))
    if frame is None:
        return None
    base, exponent = frame.f_locals["self"], frame.f_locals["other"]
    if isinstance(exponent, torch.SymFloat):
        return base, isinstance(exponent.node.expr, fn.ToFloat)
    return base, isinstance(exponent, torch.SymInt) or float(exponent).is_integer()


def _is_called_by(name: str, frame: FrameType | None) -> bool:
    return _caller(lambda each: each.f_code.co_name == name, frame) is not None


def _caller(wanted: Callable[[FrameType], bool], frame: FrameType | None) -> FrameType | None:
    for _ in range(_DEPTH):
        if frame is None or wanted(frame):
            return frame
        frame = frame.f_back
    return None


def _is_swapped(frame: FrameType) -> bool:
    """Whether torch.sym_min or sym_max calls the method of its second operand, the first being a plain number."""
    return frame.f_code in _IN_ORDER and not isinstance(frame.f_locals["a"], torch.SymInt | torch.SymFloat)


def _computed(function: Callable[..., Any], op: str, *nodes: SymNode) -> SymNode:
    """The result of an operation by its name in terms, recorded as this function."""
    if op in {"truediv", "floordiv", "mod"}:
        _demand(nodes[0], lambda: wrap_node(nodes[1]) != 0.0, BY_ZERO)
    if op == "sqrt":
        _demand(nodes[0], lambda: torch.sym_not(wrap_node(nodes[0]) < 0.0), "math domain error")
    if get_proxy_mode():
        return _recorded(function, *nodes)
    _environment(nodes[0]).before(function, nodes[0])
    kind = bool if op in _QUESTIONS else float
    return _made(nodes[0], operation(op, *map(_expression, nodes)), kind, function, *nodes[1:])


def _recorded(function: Callable[..., Any], node: SymNode, *others: Any) -> SymNode:
    """The result of a function, which the tracer records and then calls."""
    operands = (wrap_node(node), *(wrap_node(other) if isinstance(other, SymNode) else other for other in others))
    with _demanded(node):
        return _node_of(node, handle_sym_dispatch(function, operands, {}))


def _node_of(beside: SymNode, number: Any) -> SymNode:
    node: SymNode = to_node(beside, number)
    return node


def _environment(node: SymNode) -> ExactShapeEnv:
    environment: Any = node.shape_env
    return environment  # type: ignore[no-any-return]


@contextlib.contextmanager
def _demanded(node: SymNode) -> Iterator[None]:
    """Inside this block nothing is demanded: it has been."""
    environment = _environment(node)
    outer, environment.has_demanded = environment.has_demanded, True
    try:
        yield
    finally:
        environment.has_demanded = outer


def _made(node: SymNode, expr: sympy.Basic, kind: type, function: Callable[..., Any], *others: SymNode) -> SymNode:
    """A node, with the example of its value where the operands have one."""
    hints = [each.hint for each in (node, *others)]
    hint = sym_node._NO_HINT if None in hints else kind(function(*hints))
    return ProofSymNode(expr, node.shape_env, kind, hint)


def _expression(node: SymNode) -> sympy.Basic:
    """What a node means; of a constant the number itself, which for -0.0 torch's expression is not."""
    return literal(node.constant) if isinstance(node.constant, float) else node.expr


def _demand_finite(node: SymNode) -> None:
    """No infinity and no nan has an integer."""
    environment = _environment(node)
    if environment.may_be_infinite(_expression(node)):
        value = wrap_node(node)
        _demand(node, lambda: is_finite(value), "cannot convert float to integer")


def is_finite(value: Any) -> Any:
    """Whether a symbolic float is no infinity and no nan. Torch cannot load what is compared with an infinity.

    >>> [is_finite(value) for value in (1e308, float("inf"), float("nan"))]
    [True, False, False]
    """
    return (value <= sys.float_info.max) & (value >= -sys.float_info.max)


def _demand(node: SymNode, condition: Callable[[], Any], message: str) -> None:
    """Check what Python checks before it computes."""
    environment = _environment(node)
    if environment.has_demanded:
        return
    found = condition()
    if isinstance(found, torch.SymBool):
        environment.demand(found, message)
    elif not found:
        raise ZeroDivisionError(message)


def _install(method: str) -> None:
    trailing = "_" if method in sym_node.magic_methods_on_operator_with_trailing_underscore else ""
    name = f"_{method}{trailing}"
    torchs = getattr(SymNode, name)

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
        return exact(torchs(self, *others))

    setattr(ProofSymNode, name, run)


for _method in (*sym_node.magic_methods, *sym_node.sizes_strides_methods):
    if _method != "round":
        _install(_method)
