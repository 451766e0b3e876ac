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
            values[node] = value_of(node, values) if node.target in _MEANINGS else source(node)
    return found


def value_of(node: torch.fx.Node, values: Mapping[torch.fx.Node, Value]) -> Value:
    """Return the value of a node, given those of its operands."""
    meaning = _MEANINGS.get(node.target)
    return None if meaning is None else _applied(meaning, node.args, values)


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


def _by_kind(*cases: tuple[tuple[Any, ...], Callable[..., Value]]) -> Callable[..., Value]:
    """Return the meaning of an operator: that of the first case whose kinds the operands have; of others, none."""

    def meaning(*values: Value) -> Value:
        for kinds, build in cases:
            if len(kinds) == len(values) and all(map(isinstance, values, kinds)):
                return build(*values)
        return None

    return meaning


_NUMBER = t.Term | t.Real


def _on_reals(op: str, count: int = 2) -> tuple[tuple[Any, ...], Callable[..., Value]]:
    """An operation on doubles; integers among the operands are converted."""
    return (_NUMBER,) * count, functools.partial(t.real_call, op)


def _arithmetic(integer: Callable[..., t.Term], real: str | None = None) -> Callable[..., Value]:
    """Return the meaning of a binary Python operator: on integers if both are, else on doubles, if `real` names one."""
    return _by_kind(((t.Term, t.Term), integer), *([] if real is None else [_on_reals(real)]))


def _comparison(op: str) -> Callable[..., Value]:
    return _by_kind(((_NUMBER, _NUMBER), functools.partial(f.real_compare, op)))


def _connective(joined: Callable[..., Formula], bits: str) -> Callable[..., Value]:
    return _by_kind(((Formula, Formula), joined), ((t.Term, t.Term), functools.partial(t.apply, bits)))


def _quotient(left: t.Term, right: t.Term) -> t.Real:
    """Consumers evaluate `n / 1` as the conversion of an integer."""
    return t.FromInt(left) if right is t.ONE else t.real_call("inttruediv", left, right)


def _rounding(op: str) -> Callable[..., Value]:
    return _by_kind(((_NUMBER,), functools.partial(t.apply, op)))


def _whole(value: Value) -> Value:
    """Law: `int(x // 1.0)` is `floor(x)`."""
    match value:
        case t.RealCall("floordiv", (x, t.RealConstant(value=1.0))):
            return t.apply("floor", x)
        case _:
            return _rounding("trunc")(value)


_ROUND_TO = functools.partial(t.real_call, "round")
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
    operator.truediv: _by_kind(((t.Term, t.Term), _quotient), _on_reals("truediv")),
    operator.neg: _by_kind(((t.Term,), operator.neg), _on_reals("neg", 1)),
    operator.pos: lambda value: value,
    operator.lt: _comparison("<"),
    operator.le: _comparison("<="),
    operator.gt: _comparison(">"),
    operator.ge: _comparison(">="),
    operator.eq: _comparison("=="),
    operator.ne: _comparison("!="),
    operator.and_: _connective(f.conjunction, "and"),
    operator.or_: _connective(f.disjunction, "or"),
    torch.sym_not: _by_kind(((Formula,), f.negate)),
    torch.sym_min: _arithmetic(t.minimum, "min"),
    torch.sym_max: _arithmetic(t.maximum, "max"),
    torch.sym_sum: lambda *values: functools.reduce(_ADD, values),
    torch.sym_float: _by_kind(((t.Term,), t.FromInt), ((t.Real,), lambda value: value)),
    torch.sym_int: _whole,
    torch.sym_ite: _by_kind(((Formula, t.Term, t.Term), t.where)),
    torch.sym_sqrt: _by_kind(_on_reals("sqrt", 1)),
    math.trunc: _whole,
    math.floor: _rounding("floor"),
    math.ceil: _rounding("ceil"),
    round: _by_kind(((_NUMBER,), functools.partial(t.apply, "round")), ((t.Real, t.Term), _ROUND_TO)),
}
