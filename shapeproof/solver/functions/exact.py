"""Exact doubles: where an integer or a comparison made from float expressions equals one made from integers.

`int(n * 0.5)` is `n // 2` for n >= 0, and `int(n / 4)` is `n // 4`, if no operation rounds or rounding cannot matter.
Without the bounds that show this, the expression stays as it is: `int(n * 0.29)` is not rewritten.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shapeproof.constraints.formulas import Formula, compare
from shapeproof.constraints.meaning.intervals import Interval
from shapeproof.constraints.reals import FromInt, Real, RealCall, RealConstant
from shapeproof.constraints.terms import Term, as_term, floor_div
from shapeproof.solver.functions.doubles import Bounds

_EXACT = 2**52
_MOST_BITS = 64


@dataclass(frozen=True, slots=True)
class _Fraction:
    """`numerator / 2**bits`, exactly a double."""

    numerator: Term
    bits: int

    def over(self, bits: int) -> Term:
        """Return the numerator over a greater power of two."""
        return self.numerator * (1 << (bits - self.bits))


def exact_integer(op: str, args: list[Any], bounds: Bounds) -> Term | None:
    """Return the integer term that `op(*args)` equals, if bounds show that rounding cannot matter; otherwise None."""
    match args:
        case [RealCall("inttruediv", (Term() as numerator, Term() as divisor))]:
            return _rounded(op, numerator, divisor, bounds) if _is_exact(numerator, divisor, bounds) else None
        case [Real() as real]:
            fraction = _fraction(real, bounds)
            return None if fraction is None else _rounded(op, fraction.numerator, as_term(2**fraction.bits), bounds)
        case _:
            return None


def exact_comparison(op: str, left: Real | Term, right: Real | Term, bounds: Bounds) -> Formula | None:
    """Return the comparison of integers that equals a comparison of doubles, or None."""
    fractions = [_Fraction(side, 0) if isinstance(side, Term) else _fraction(side, bounds) for side in (left, right)]
    match fractions:
        case [_Fraction() as first, _Fraction() as second]:
            bits = max(first.bits, second.bits)
            return _compared(op, first.over(bits) - second.over(bits))
        case [_Fraction(whole, 0), None]:
            below = _quotient_above(right, whole, bounds)
            return None if below is None else _compared(op, -below)
        case [None, _Fraction(whole, 0)]:
            above = _quotient_above(left, whole, bounds)
            return None if above is None else _compared(op, above)
        case _:
            return None


def _compared(op: str, difference: Term) -> Formula:
    return compare("<=", difference + 1) if op == "<" else compare(op, difference)


def _quotient_above(real: Real | Term, whole: Term, bounds: Bounds) -> Term | None:
    """Return a term with the sign of `real - whole`, where `real` is Python's `/` of two integers; otherwise None.

    `_is_exact` states why the sign is right.
    """
    match real:
        case RealCall("inttruediv", (Term() as numerator, Term() as divisor)) if _is_exact(numerator, divisor, bounds):
            return numerator - whole * divisor
        case _:
            return None


def _is_exact(numerator: Term, divisor: Term, bounds: Bounds) -> bool:
    """True if the double nearest to a/b lies on the same side of every integer as a/b: if both are below 2**52."""
    return _small(bounds(numerator)) and _small(bounds(divisor)) and bounds(divisor).sign > 0


def _rounded(op: str, numerator: Term, divisor: Term, bounds: Bounds) -> Term | None:
    """Return `op(numerator / divisor)` for a positive divisor, or None."""
    known = bounds(numerator)
    below = floor_div(numerator, divisor)
    above = -floor_div(-numerator, divisor)
    if op == "floor" or (op == "trunc" and known.is_nonnegative):
        return below
    if op == "ceil" or (op == "trunc" and (-known).is_nonnegative):
        return above
    return below if below is above else None


def _fraction(real: Real, bounds: Bounds) -> _Fraction | None:
    """Return the exact value of the expression, if no operation in it rounds."""
    match real:
        case RealConstant(value=value) if value == value and abs(value) != float("inf"):  # noqa: PLR0124  (not a nan)
            numerator, denominator = value.as_integer_ratio()
            return _kept(as_term(numerator), denominator.bit_length() - 1, bounds)
        case FromInt(term):
            return _kept(term, 0, bounds)
        case RealCall("inttruediv", (Term() as numerator, Term() as divisor)) if _is_power_of_two(divisor):
            return _kept(numerator, divisor.constant_value.bit_length() - 1, bounds)
        case RealCall("neg", (Real() as value,)):
            return _combined("sub", _Fraction(as_term(0), 0), _fraction(value, bounds), bounds)
        case RealCall(("add" | "sub" | "mul") as op, (Real() as left, Real() as right)):
            return _combined(op, _fraction(left, bounds), _fraction(right, bounds), bounds)
        case _:
            return None


def _combined(op: str, left: _Fraction | None, right: _Fraction | None, bounds: Bounds) -> _Fraction | None:
    if left is None or right is None:
        return None
    if op == "mul":
        return _kept(left.numerator * right.numerator, left.bits + right.bits, bounds)
    bits = max(left.bits, right.bits)
    sign = 1 if op == "add" else -1
    return _kept(left.over(bits) + sign * right.over(bits), bits, bounds)


def _kept(numerator: Term, bits: int, bounds: Bounds) -> _Fraction | None:
    """Return the fraction if it is exactly a double; the sign of a zero does not matter here."""
    return _Fraction(numerator, bits) if bits <= _MOST_BITS and _small(bounds(numerator)) else None


def _is_power_of_two(term: Term) -> bool:
    return term.is_constant and term.constant_value > 0 and term.constant_value.bit_count() == 1


def _small(interval: Interval) -> bool:
    lower, upper = interval.lower, interval.upper
    return lower is not None and upper is not None and lower > -_EXACT and upper < _EXACT
