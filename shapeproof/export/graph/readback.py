"""Reads the assertions of a graph back as formulas: all checks of the program, by shapeproof, torch or the user.

Each operator on numbers gets its Python meaning. This file shares no code with the writers of assertions (emit.py,
torch's own passes), so that it can verify their output.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints import terms as t
from shapeproof.constraints.formulas import Formula
from shapeproof.export.shim.numbers.symbols import ASSERTION

Value = t.Term | t.Real | Formula | None
"""The value of a node: an integer, a double or a condition; None if unknown."""

Source = Callable[[torch.fx.Node], Value]
"""Returns the value of a node that reads a number: a size of a tensor, a number from data, an input."""


def assertions(graph: torch.fx.Graph, source: Source) -> list[Formula]:
    """Return the conditions that a graph asserts, in order; unreadable conditions are left out."""
    values: dict[torch.fx.Node, Value] = {}
    found = []
    for node in graph.nodes:
        if node.target is ASSERTION:
            condition = _operand(node.args[0], values)
            found += [condition] if isinstance(condition, Formula) else []
        elif node.op in {"placeholder", "call_function"}:
            meaning = _MEANINGS.get(node.target)
            values[node] = source(node) if meaning is None else _applied(meaning, node.args, values)
    return found


def _applied(meaning: Callable[..., Value], args: tuple[Any, ...], values: Mapping[torch.fx.Node, Value]) -> Value:
    flat = args[0] if len(args) == 1 and isinstance(args[0], list | tuple) else args
    operands = [_operand(arg, values) for arg in flat]
    return None if any(operand is None for operand in operands) else meaning(*operands)


def _operand(arg: Any, values: Mapping[torch.fx.Node, Value]) -> Value:
    match arg:
        case torch.fx.Node():
            return values.get(arg)
        case bool():
            return f.TRUE if arg else f.FALSE
        case int():
            return t.constant(arg)
        case float():
            return t.RealConstant(arg)
        case _:
            return None


def _arithmetic(integer: Callable[..., t.Term], real: str | None = None) -> Callable[..., Value]:
    """Return the meaning of a binary Python operator: on integers if both are, else on doubles, if `real` names one."""

    def meaning(left: Value, right: Value) -> Value:
        if isinstance(left, t.Term) and isinstance(right, t.Term):
            return integer(left, right)
        if real is None or isinstance(left, Formula | None) or isinstance(right, Formula | None):
            return None
        return t.real_call(real, left, right)

    return meaning


def _comparison(op: str) -> Callable[..., Value]:
    def meaning(left: Value, right: Value) -> Value:
        if isinstance(left, Formula | None) or isinstance(right, Formula | None):
            return None
        return f.real_compare(op, left, right)

    return meaning


def _connective(joined: Callable[..., Formula], bits: str) -> Callable[..., Value]:
    def meaning(left: Value, right: Value) -> Value:
        if isinstance(left, Formula) and isinstance(right, Formula):
            return joined(left, right)
        if isinstance(left, t.Term) and isinstance(right, t.Term):
            return t.apply(bits, left, right)
        return None

    return meaning


def _division(left: Value, right: Value) -> Value:
    if isinstance(left, t.Term) and isinstance(right, t.Term):
        if right is t.ONE:  # consumers evaluate `n / 1` as this conversion
            return t.FromInt(left)
        return t.real_call("inttruediv", left, right)
    return _arithmetic(t.floor_div, "truediv")(left, right)


def _negative(value: Value) -> Value:
    match value:
        case t.Term():
            return -value
        case t.Real():
            return t.real_call("neg", value)
        case _:
            return None


def _whole(value: Value) -> Value:
    """Law: `int(x // 1.0)` is `floor(x)`."""
    match value:
        case t.RealCall("floordiv", (x, t.RealConstant(value=1.0))):
            return t.apply("floor", x)
        case _:
            return _rounding("trunc")(value)


def _opposite(value: Value) -> Value:
    return f.negate(value) if isinstance(value, Formula) else None


def _as_float(value: Value) -> Value:
    return t.FromInt(value) if isinstance(value, t.Term) else value if isinstance(value, t.Real) else None


def _rounding(op: str) -> Callable[[Value], Value]:
    return lambda value: t.apply(op, value) if isinstance(value, t.Term | t.Real) else None


def _round(value: Value, *digits: Value) -> Value:
    if not digits:
        return _rounding("round")(value)
    known = isinstance(value, t.Real) and isinstance(digits[0], t.Term)
    return t.real_call("round", value, digits[0]) if known else None  # type: ignore[arg-type]


def _choice(condition: Value, then: Value, otherwise: Value) -> Value:
    known = isinstance(condition, Formula) and isinstance(then, t.Term) and isinstance(otherwise, t.Term)
    return t.where(condition, then, otherwise) if known else None  # type: ignore[arg-type]


def _root(value: Value) -> Value:
    return t.real_call("sqrt", value) if isinstance(value, t.Term | t.Real) else None


_ADD = _arithmetic(operator.add, "add")

_MEANINGS: Mapping[Any, Callable[..., Value]] = {
    operator.add: _ADD,
    operator.sub: _arithmetic(operator.sub, "sub"),
    operator.mul: _arithmetic(operator.mul, "mul"),
    operator.floordiv: _arithmetic(t.floor_div, "floordiv"),
    operator.mod: _arithmetic(t.modulo, "mod"),
    operator.pow: _arithmetic(functools.partial(t.apply, "pow"), "pow"),
    operator.lshift: _arithmetic(functools.partial(t.apply, "lshift")),
    operator.rshift: _arithmetic(functools.partial(t.apply, "rshift")),
    operator.truediv: _division,
    operator.neg: _negative,
    operator.pos: lambda value: value,
    operator.lt: _comparison("<"),
    operator.le: _comparison("<="),
    operator.gt: _comparison(">"),
    operator.ge: _comparison(">="),
    operator.eq: _comparison("=="),
    operator.ne: _comparison("!="),
    operator.and_: _connective(f.conjunction, "and"),
    operator.or_: _connective(f.disjunction, "or"),
    torch.sym_not: _opposite,
    torch.sym_min: _arithmetic(t.minimum, "min"),
    torch.sym_max: _arithmetic(t.maximum, "max"),
    torch.sym_sum: lambda *values: functools.reduce(_ADD, values),
    torch.sym_float: _as_float,
    torch.sym_int: _whole,
    torch.sym_ite: _choice,
    torch.sym_sqrt: _root,
    math.trunc: _whole,
    math.floor: _rounding("floor"),
    math.ceil: _rounding("ceil"),
    round: _round,
}
