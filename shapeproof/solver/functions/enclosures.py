"""Float expressions between two sums of integers: `0.1*n*(1 - e) <= n * 0.1 <= 0.1*n*(1 + e)` for n >= 0.

Where ranges (doubles.py) say how large a value may be, this says how it compares with the sizes that it is made of, at
any size. Everything is exact: the factors are fractions, and each operation that rounds widens them by half an ulp.

Law: rounding is monotone, and moves a number of the normal range by at most 2**-53 of it. So of terms T >= 0 with
`sum(low*T) <= x <= sum(high*T)`, the double nearest to x lies between the same sums with each low less 2**-53 of it and
each high more; factors below the normal range are left out below, and end the attempt above. An overflow gives an
infinity, and every operation here hands it on until it is made an integer, which raises.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from shapeproof.constraints.meaning.intervals import Interval
from shapeproof.constraints.nodes import MEMORY, Node, postorder
from shapeproof.constraints.reals import FromInt, Real, RealCall, RealConstant
from shapeproof.constraints.terms import ONE, Term

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Bounds = Callable[[Term], Interval]

_HALF_ULP = Fraction(1, 2**53)
_EXACT = 2**53
_LEAST = Fraction(1, 2**1000)
_MOST_PARTS = 8
_MOST_BITS = 400


@dataclass(frozen=True, slots=True)
class Enclosure:
    """`sum(low*T) <= value <= sum(high*T)` over terms T that are at least 0."""

    parts: dict[Term, tuple[Fraction, Fraction]]

    def rounded(self) -> Enclosure | None:
        """The same of the double nearest to the value."""
        widened = {}
        for term, (least, most) in self.parts.items():
            low, high = least * (1 - _HALF_ULP), most * (1 + _HALF_ULP)
            if high < _LEAST or max(low.denominator, high.denominator).bit_length() > _MOST_BITS:
                return None
            widened[term] = (low if low >= _LEAST else Fraction(0), high)
        return Enclosure(widened) if len(widened) <= _MOST_PARTS else None


def enclosure(real: Real, bounds: Bounds) -> Enclosure | None:
    """Where the expression lies, wherever it is finite; None if nothing is known, or it may be negative.

    >>> from shapeproof.constraints.terms import symbol
    >>> from shapeproof.constraints.syntax.text import parse_any
    >>> found = enclosure(parse_any("n * 0.25"), lambda _: Interval(0, 100))
    >>> found.parts == {symbol("n"): (Fraction(1, 4), Fraction(1, 4))}
    True
    """
    leaves = [node.term if isinstance(node, FromInt) else node for node in postorder(real)]
    ranges = tuple((leaf, bounds(leaf)) for leaf in leaves if isinstance(leaf, Term))
    return _enclosed(real, ranges)


@lru_cache(maxsize=MEMORY)
def _enclosed(real: Real, ranges: tuple[tuple[Term, Interval], ...]) -> Enclosure | None:
    known: dict[Node, Enclosure | None] = {}
    within = dict(ranges)
    for node in postorder(real):
        if isinstance(node, Real):
            known[node] = _of(node, known, within)
    return known[real]


def _of(node: Real, known: dict[Node, Enclosure | None], within: dict[Term, Interval]) -> Enclosure | None:
    match node:
        case RealConstant(value=value):
            return _constant(value)
        case FromInt(term):
            return _integer(term, within[term])
        case RealCall("inttruediv", (Term() as numerator, Term() as divisor)):
            return _quotient(numerator, within[numerator], within[divisor])
        case RealCall("mul", (left, right)):
            return _product(node, known[left], known[right])
        case RealCall("add", (left, right)):
            return _sum(known[left], known[right])
        case RealCall("truediv", (left, right)):
            return _over(known[left], known[right])
        case RealCall("sqrt", (FromInt(term),)) if _integer(term, within[term]) is not None:
            return Enclosure({term: (Fraction(0), Fraction(1))})  # of 1 it is 1, of more it is far less
        case RealCall("log" | "log2", (FromInt(term),)) if (within[term].lower or 0) >= 1:
            return Enclosure({term: (Fraction(0), Fraction(1))})  # of 1 it is 0
        case RealCall("pow", (FromInt(term), RealConstant(value=exponent))) if 0 < exponent <= 0.5:
            positive = _integer(term, within[term])
            return positive and Enclosure({term: (Fraction(0), Fraction(1))})  # as for the square root
        case _:
            return None


def _constant(value: float) -> Enclosure | None:
    if not math.isfinite(value) or value < 0 or 0 < value < _LEAST:
        return None
    return Enclosure({ONE: (Fraction(value), Fraction(value))} if value else {})


def _integer(term: Term, interval: Interval) -> Enclosure | None:
    if interval.lower is None or interval.lower < 0:
        return None
    exactly = Enclosure({term: (Fraction(1), Fraction(1))})
    return exactly if interval.upper is not None and interval.upper <= _EXACT else exactly.rounded()


def _quotient(numerator: Term, over: Interval, under: Interval) -> Enclosure | None:
    """Python's `/` of two integers, which is rounded once."""
    if over.lower is None or over.lower < 0 or under.lower is None or under.lower < 1:
        return None
    low = Fraction(0) if under.upper is None else Fraction(1, under.upper)
    return Enclosure({numerator: (low, Fraction(1, under.lower))}).rounded()


def _product(node: RealCall, left: Enclosure | None, right: Enclosure | None) -> Enclosure | None:
    if left is None or right is None:
        return None
    pairs = (
        (one * other, (low * least, high * most))
        for one, (low, high) in left.parts.items()
        for other, (least, most) in right.parts.items()
    )
    product = _collected(pairs)
    return product if _is_scaling(node) else product.rounded()


def _is_scaling(node: RealCall) -> bool:
    """Whether an integer is multiplied by a power of two that is neither large nor small: then nothing is rounded."""
    match sorted(node.args, key=lambda arg: isinstance(arg, RealConstant)):
        case [FromInt(), RealConstant(value=value)] if value:
            mantissa, exponent = math.frexp(value)
            return mantissa == 0.5 and abs(exponent) < 100
        case _:
            return False


def _sum(left: Enclosure | None, right: Enclosure | None) -> Enclosure | None:
    if left is None or right is None:
        return None
    return _collected([*left.parts.items(), *right.parts.items()]).rounded()


def _over(left: Enclosure | None, right: Enclosure | None) -> Enclosure | None:
    """A quotient by what is a number."""
    if left is None or right is None or right.parts.keys() != {ONE}:
        return None
    least, most = right.parts[ONE]
    if least < _LEAST:
        return None
    return Enclosure({term: (low / most, high / least) for term, (low, high) in left.parts.items()}).rounded()


def _collected(pairs: Iterable[tuple[Term, tuple[Fraction, Fraction]]]) -> Enclosure:
    parts: dict[Term, tuple[Fraction, Fraction]] = {}
    for term, (low, high) in pairs:
        least, most = parts.get(term, (Fraction(0), Fraction(0)))
        parts[term] = (least + low, most + high)
    return Enclosure(parts)
