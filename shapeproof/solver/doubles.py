"""Bounds of float expressions.

Every IEEE operation used here is monotone in each argument, rounding included. So the values at the ends of the
intervals of its arguments, computed as Python computes them, bound the values between.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from shapeproof.constraints import operators
from shapeproof.constraints.intervals import Interval
from shapeproof.constraints.nodes import Node, postorder
from shapeproof.constraints.reals import FromInt, Real, RealCall, RealConstant
from shapeproof.constraints.terms import Term

if TYPE_CHECKING:
    from collections.abc import Iterable

_Ends = tuple[float, float]
_LARGEST = 2**1000
ROUNDINGS: dict[str, Callable[[float], int]] = {
    "trunc": math.trunc,
    "floor": math.floor,
    "ceil": math.ceil,
    "round": round,
}
"""The ways from a double to an integer."""


def rounded_bounds(op: str, real: Real, bounds: Callable[[Term], Interval]) -> Interval:
    """Bounds of `trunc`, `floor`, `ceil` or `round` of a float expression, where it has a value.

    >>> from shapeproof.constraints.terms import symbol
    >>> from shapeproof.constraints.text import parse_term
    >>> (((trunc, _),), _), = parse_term("int(n * 0.29)").monomials
    >>> rounded_bounds(trunc.op, trunc.args[0], lambda _: Interval(0, 100))
    Interval(lower=0, upper=28)
    """
    ends = _ends(real, bounds)
    if ends is None or op not in ROUNDINGS:
        return Interval()
    low, high = (ROUNDINGS[op](end) if math.isfinite(end) else None for end in ends)
    return Interval(low, high)


def _ends(root: Real, bounds: Callable[[Term], Interval]) -> _Ends | None:
    known: dict[Node, _Ends | None] = {}
    for node in postorder(root):
        if isinstance(node, Real):
            known[node] = _computed(node, known, bounds)
    return known[root]


def _computed(node: Real, known: dict[Node, _Ends | None], bounds: Callable[[Term], Interval]) -> _Ends | None:
    match node:
        case RealConstant(value=value):
            return (value, value) if math.isfinite(value) else None
        case FromInt(term):
            return _converted(bounds(term))
        case RealCall("inttruediv", (Term() as numerator, Term() as divisor)):
            return _applied("truediv", [_converted(bounds(numerator)), _positive(_converted(bounds(divisor)))])
        case RealCall("truediv", (left, right)):
            return _applied("truediv", [known[left], _positive(known[right])])
        case RealCall(("add" | "sub" | "mul" | "neg" | "min" | "max") as op, args):
            return _applied(op, [known[arg] for arg in args])
        case RealCall("sqrt", (arg,)):
            return _applied("sqrt", [_positive(known[arg], strictly=False)])
        case _:
            return None


def _applied(op: str, args: list[_Ends | None]) -> _Ends | None:
    """The least and the greatest value at the corners; None if a corner has no finite value."""
    corners: list[tuple[float, ...]] = [()]
    for ends in args:
        if ends is None:
            return None
        corners = [(*corner, end) for corner in corners for end in ends]
    return _finite(operators.REAL[op](*corner) for corner in corners)


def _finite(values: Iterable[float]) -> _Ends | None:
    listed = list(values)
    return (min(listed), max(listed)) if all(map(math.isfinite, listed)) else None


def _converted(interval: Interval) -> _Ends | None:
    low, high = interval.lower, interval.upper
    if low is None or high is None or max(abs(low), abs(high)) > _LARGEST:
        return None
    return float(low), float(high)


def _positive(ends: _Ends | None, *, strictly: bool = True) -> _Ends | None:
    return ends if ends is not None and (ends[0] > 0 or (not strictly and ends[0] == 0)) else None
