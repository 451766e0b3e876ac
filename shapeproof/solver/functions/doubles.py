"""Ranges of float expressions, infinities and nan included; the integers in them may lack bounds.

Every IEEE operation used here is monotone in each argument, even with rounding and overflow. So its values at the ends
of the arguments' ranges, and at 0 between them, bound all values between; Python computes these values. An integer
without a bound is either convertible by `float`, or the expression has no value. Logarithms and roots come from the C
library. The only assumptions about them: logarithms are nonnegative from 1 on, roots from 0 on, and neither is too
large.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

from shapeproof.constraints import operators
from shapeproof.constraints.formulas import RealCompare
from shapeproof.constraints.meaning.intervals import Interval
from shapeproof.constraints.nodes import Node, postorder
from shapeproof.constraints.reals import FromInt, Real, RealCall, RealConstant
from shapeproof.constraints.terms import Term

Bounds: TypeAlias = Callable[[Term], Interval]
"""Known bounds of a term."""
ROUNDINGS: dict[str, Callable[[float], int]] = {op: operators.INTEGER[op] for op in ("trunc", "floor", "ceil", "round")}
"""The functions from a double to an integer."""

_GREATEST = sys.float_info.max
_LEAST = math.ulp(0.0)
_LARGEST_LOGARITHM = 1024.0
_NO_BOUND = 2.0**256
"""Ends beyond this count as no bound: for a size they would be numbers of hundreds of digits."""


@dataclass(frozen=True, slots=True)
class Range:
    """The doubles (for a term, integers) from `low` to `high`, both included; and nan if `nan` is true."""

    low: float = -math.inf
    high: float = math.inf
    nan: bool = True

    @property
    def is_finite(self) -> bool:
        """True if the range contains neither an infinity nor nan."""
        return not self.nan and math.isfinite(self.low) and math.isfinite(self.high)

    def ends(self) -> set[float]:
        """Return the ends, and 0 if it lies between them."""
        return {self.low, self.high, 0.0} if self.low < 0 < self.high else {self.low, self.high}

    def between(self, low: float, high: float) -> Range:
        """Return the part of the range between `low` and `high`."""
        return Range(max(low, self.low), min(high, self.high), self.nan)


def rounded_bounds(op: str, real: Real, bounds: Bounds) -> Interval:
    """Return bounds of `trunc`, `floor`, `ceil` or `round` of a float expression, where it has a value.

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
    """True or False if ranges show it for a comparison of doubles wherever it has a value; otherwise None."""
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
    if not fails and (not holds or left.nan or right.nan):  # with nan, every comparison except != is false
        return None
    return holds ^ formula.negated ^ (formula.op == "!=")


def range_of(root: Real, bounds: Bounds) -> Range:
    """Return the range of the expression, wherever it has a value.

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
    """Return the hull of the values at the corners."""
    if any(arg.low > arg.high for arg in args):
        return Range()
    values = [operators.REAL[op](*corner) for corner in product(*(arg.ends() for arg in args))]
    numbers = [value for value in values if not math.isnan(value)]
    nan = len(numbers) < len(values) or any(arg.nan for arg in args)
    return Range(min(numbers), max(numbers), nan) if numbers else Range()


def _extremum(op: str, args: list[Range]) -> Range:
    """Return the range of a min or max; with a nan among the arguments, Python may return any of them."""
    if any(arg.nan for arg in args):
        return _hull(args)
    pick = operators.REAL[op]
    return Range(pick(arg.low for arg in args), pick(arg.high for arg in args), nan=False)


def _divided(numerator: Range, divisor: Range) -> Range:
    sides = (divisor.between(_LEAST, math.inf), divisor.between(-math.inf, -_LEAST))
    return _hull(_applied("truediv", [numerator, side]) for side in sides if side.low <= side.high)


def _hull(parts: Iterable[Range]) -> Range:
    listed = list(parts)
    if not listed:
        return Range()
    return Range(min(part.low for part in listed), max(part.high for part in listed), any(part.nan for part in listed))


def _of_integers(interval: Interval) -> Range:
    """Return the range of unconverted integers: Python compares integers with doubles exactly."""
    low, high = interval.lower, interval.upper
    return Range(-math.inf if low is None else low, math.inf if high is None else high, nan=False)


def _converted(interval: Interval) -> Range:
    """Return the range of `float` of an integer: it rounds, and gives no infinity."""
    low, high = interval.lower, interval.upper
    ends = (-_GREATEST if low is None else _double(low), _GREATEST if high is None else _double(high))
    return Range(*ends, nan=False)


def _double(numerator: int, divisor: int = 1) -> float:
    """Return the double nearest to the quotient by a positive divisor; on overflow, the largest finite double."""
    try:
        return numerator / divisor
    except OverflowError:
        return _GREATEST if numerator > 0 else -_GREATEST


def _quotient(numerator: Interval, divisor: Interval) -> Range:
    """Return the range of Python's `/` of two integers: rounded once to the nearest double, no infinity."""
    above, below = divisor & Interval(1, None), -divisor & Interval(1, None)
    parts = [_over_positive(numerator, above)] if not above.is_empty else []
    parts += [_over_positive(-numerator, below)] if not below.is_empty else []
    return _hull(parts)


def _over_positive(numerator: Interval, divisor: Interval) -> Range:
    low, high, least, most = numerator.lower, numerator.upper, divisor.lower or 1, divisor.upper
    return Range(-_farthest(None if low is None else -low, least, most), _farthest(high, least, most), nan=False)


def _farthest(numerator: int | None, least: int, most: int | None) -> float:
    """Return the greatest quotient of an integer `<= numerator` by a positive divisor between `least` and `most`.

    If the divisor has no upper bound, the quotient of a negative numerator comes arbitrarily near to 0.
    """
    if numerator is None:
        return _GREATEST
    if numerator >= 0:
        return _double(numerator, least)
    return 0.0 if most is None else _double(numerator, most)
