"""Doubles that are exact: where an integer taken from a float expression equals an integer term.

`int(n / 4)` is `n // 4` only while the quotient is rounded to nothing else. Up to 2**52 in size it is: the double nearest
to a/b lies on the same side of every integer as a/b itself. Beyond that, or where a bound is missing, nothing is said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shapeproof.constraints.reals import RealCall
from shapeproof.constraints.terms import Term, floor_div

if TYPE_CHECKING:
    from collections.abc import Callable

    from shapeproof.constraints.intervals import Interval

_EXACT = 2**52


def exact_integer(op: str, args: list[Any], bounds: Callable[[Term], Interval]) -> Term | None:
    """The integer term that `op(*args)` equals, where bounds show that rounding cannot matter."""
    match op, args:
        case (("trunc" | "floor" | "ceil"), [RealCall("inttruediv", (Term() as numerator, Term() as divisor))]):
            top, bottom = bounds(numerator), bounds(divisor)
            if not (_small(top) and _small(bottom)) or bottom.lower is None or bottom.lower < 1:
                return None
            if op == "floor" or (op == "trunc" and top.lower is not None and top.lower >= 0):
                return floor_div(numerator, divisor)
            if op == "ceil" or (top.upper is not None and top.upper <= 0):
                return -floor_div(-numerator, divisor)
    return None


def _small(interval: Interval) -> bool:
    lower, upper = interval.lower, interval.upper
    return lower is not None and upper is not None and lower > -_EXACT and upper < _EXACT
