"""Where float expressions lie, infinities and nan included, for integers with a bound on one side, on both or on none.

Every IEEE operation used here is monotone in each argument, rounding and overflow included. So the values at the ends
of the ranges of its arguments, and at 0 between them, computed as Python computes them, bound the values between. An
integer without a bound is one that `float` converts, or else nothing that is made of it has a value. Logarithms and
roots are the C library's, of which no more is used than that they are not negative from 1 (from 0) on, nor too large.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from shapeproof.constraints import operators
from shapeproof.constraints.meaning.intervals import Interval
from shapeproof.constraints.nodes import Node, postorder
from shapeproof.constraints.reals import FromInt, Real, RealCall, RealConstant
from shapeproof.constraints.terms import Term

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shapeproof.constraints.formulas import RealCompare

    Bounds = Callable[[Term], Interval]

ROUNDINGS: dict[str, Callable[[float], int]] = {
    "trunc": math.trunc,
    "floor": math.floor,
    "ceil": math.ceil,
    "round": round,
}
"""The ways from a double to an integer."""

_GREATEST = sys.float_info.max
_LEAST = math.ulp(0.0)
_LARGEST_LOGARITHM = 1024.0
_NO_BOUND = 2.0**256
"""An end so far out is that of the doubles themselves: said of a size, it would be a number of hundreds of digits."""


@dataclass(frozen=True, slots=True)
class Range:
    """The doubles (or, of a term, integers) from `low` to `high`, both included, and nan if it may be."""

    low: float = -math.inf
    high: float = math.inf
    nan: bool = True

    @property
    def is_finite(self) -> bool:
        """Whether neither an infinity nor nan is among them."""
        return not self.nan and math.isfinite(self.low) and math.isfinite(self.high)

    def ends(self) -> set[float]:
        """The ends, and 0 where it is between them."""
        return {self.low, self.high, 0.0} if self.low < 0 < self.high else {self.low, self.high}

    def between(self, low: float, high: float) -> Range:
        """What of it lies between these."""
        return Range(max(low, self.low), min(high, self.high), self.nan)


def rounded_bounds(op: str, real: Real, bounds: Bounds) -> Interval:
    """Bounds of `trunc`, `floor`, `ceil` or `round` of a float expression, where it has a value.

    >>> from shapeproof.constraints.terms import symbol
    >>> from shapeproof.constraints.syntax.text import parse_term
    >>> (((trunc, _),), _), = parse_term("int(n * 0.29)").monomials
    >>> rounded_bounds(trunc.op, trunc.args[0], lambda _: Interval(100, None))
    Interval(lower=28, upper=None)
    """
    if op not in ROUNDINGS:
        return Interval()
    found = range_of(real, bounds)
    return Interval(*(ROUNDINGS[op](end) if abs(end) < _NO_BOUND else None for end in (found.low, found.high)))


def compared(formula: RealCompare, bounds: Bounds) -> bool | None:
    """Whether a comparison of doubles is true or false wherever it has a value, as far as their ranges say."""
    left, right = (
        range_of(side, bounds) if isinstance(side, Real) else _of_integers(bounds(side))
        for side in (formula.left, formula.right)
    )
    apart = left.high < right.low or left.low > right.high
    same = left.low == left.high == right.low == right.high
    holds, fails = {
        "<": (left.high < right.low, left.low >= right.high),
        "<=": (left.high <= right.low, left.low > right.high),
    }.get(formula.op, (same, apart))
    if not fails and (not holds or left.nan or right.nan):  # of nan, every comparison but != fails
        return None
    return holds ^ formula.negated ^ (formula.op == "!=")


def range_of(root: Real, bounds: Bounds) -> Range:
    """Where the expression lies, wherever it has a value.

    >>> from shapeproof.constraints.reals import RealConstant, real_call
    >>> from shapeproof.constraints.terms import symbol
    >>> range_of(real_call("truediv", symbol("n"), RealConstant(0.5)), lambda _: Interval(3, None))
    Range(low=6.0, high=inf, nan=False)
    """
    known: dict[Node, Range] = {}
    for node in postorder(root):
        if isinstance(node, Real):
            known[node] = _computed(node, known, bounds)
    return known[root]


def _computed(node: Real, known: dict[Node, Range], bounds: Bounds) -> Range:
    match node:
        case RealConstant(value=value) if not math.isnan(value):
            return Range(value, value, nan=False)
        case FromInt(term):
            return _converted(bounds(term))
        case RealCall("inttruediv", (Term() as numerator, Term() as divisor)):
            return _quotient(bounds(numerator), bounds(divisor))
        case RealCall("truediv", (left, right)):
            return _divided(known[left], known[right])
        case RealCall(("min" | "max") as op, args):
            return _extremum(op, [known[arg] for arg in args])
        case RealCall(("add" | "sub" | "mul" | "neg" | "abs") as op, args):
            return _applied(op, [known[arg] for arg in args])
        case RealCall("sqrt", (arg,)):
            return _applied("sqrt", [known[arg].between(0.0, math.inf)])
        case RealCall("log" | "log2", (arg,)) if known[arg].low >= 1:
            return Range(0.0, _LARGEST_LOGARITHM if known[arg].is_finite else math.inf, known[arg].nan)
        case RealCall("pow", (arg, RealConstant(value=exponent))) if known[arg].low >= 0 and 0 < exponent <= 0.5:
            return Range(0.0, max(1.0, known[arg].high), known[arg].nan)
        case _:
            return Range()


def _applied(op: str, args: list[Range]) -> Range:
    """The least and the greatest value at the corners."""
    if any(arg.low > arg.high for arg in args):
        return Range()
    values = [operators.REAL[op](*corner) for corner in product(*(arg.ends() for arg in args))]
    numbers = [value for value in values if not math.isnan(value)]
    nan = len(numbers) < len(values) or any(arg.nan for arg in args)
    return Range(min(numbers), max(numbers), nan) if numbers else Range()


def _extremum(op: str, args: list[Range]) -> Range:
    """The least or the greatest; where one is nan, Python gives any of them."""
    if any(arg.nan for arg in args):
        return _hull(args)
    pick = operators.REAL[op]
    return Range(pick(arg.low for arg in args), pick(arg.high for arg in args), nan=False)


def _divided(numerator: Range, divisor: Range) -> Range:
    """A quotient, whose divisor is not 0."""
    sides = (divisor.between(_LEAST, math.inf), divisor.between(-math.inf, -_LEAST))
    return _hull(_applied("truediv", [numerator, side]) for side in sides if side.low <= side.high)


def _hull(parts: Iterable[Range]) -> Range:
    listed = list(parts)
    if not listed:
        return Range()
    return Range(min(part.low for part in listed), max(part.high for part in listed), any(part.nan for part in listed))


def _of_integers(interval: Interval) -> Range:
    """The integers as they are, not converted: Python compares them with doubles exactly."""
    low, high = interval.lower, interval.upper
    return Range(-math.inf if low is None else low, math.inf if high is None else high, nan=False)


def _converted(interval: Interval) -> Range:
    """`float` of an integer: it rounds, and never gives an infinity."""
    low, high = interval.lower, interval.upper
    ends = (-_GREATEST if low is None else _double(low), _GREATEST if high is None else _double(high))
    return Range(*ends, nan=False)


def _double(numerator: int, divisor: int = 1) -> float:
    """The double nearest to the quotient by a positive divisor; the farthest one where that is beyond them."""
    try:
        return numerator / divisor
    except OverflowError:
        return _GREATEST if numerator > 0 else -_GREATEST


def _quotient(numerator: Interval, divisor: Interval) -> Range:
    """Python's `/` of two integers, rounded once: the double nearest to the exact quotient, never an infinity."""
    above, below = divisor & Interval(1, None), -divisor & Interval(1, None)
    parts = [_over_positive(numerator, above)] if not above.is_empty else []
    parts += [_over_positive(-numerator, below)] if not below.is_empty else []
    return _hull(parts)


def _over_positive(numerator: Interval, divisor: Interval) -> Range:
    low, high, least, most = numerator.lower, numerator.upper, divisor.lower or 1, divisor.upper
    return Range(-_farthest(None if low is None else -low, least, most), _farthest(high, least, most), nan=False)


def _farthest(numerator: int | None, least: int, most: int | None) -> float:
    """The greatest quotient of an integer up to the numerator by a divisor from `least` to `most`, which are positive.

    By a divisor without an end, a quotient of a negative numerator comes as near to 0 as it can.
    """
    if numerator is None:
        return _GREATEST
    if numerator >= 0:
        return _double(numerator, least)
    return 0.0 if most is None else _double(numerator, most)
