"""Float expressions between two sums of integers: `0.1*n*(1 - e) <= n * 0.1 <= 0.1*n*(1 + e)` for n >= 0.

Ranges (doubles.py) bound a value by numbers; an enclosure compares the value with the sizes that it depends on, at any
size. The factors are exact fractions; each operation that rounds widens them by half an ulp.

Law: rounding is monotone and changes a number x of the normal range by at most `2**-53 * |x|`. So if
`sum(low*T) <= x <= sum(high*T)` for terms T >= 0, the double nearest to x satisfies the same with each low times
`1 - 2**-53` and each high times `1 + 2**-53`. A factor below the normal range becomes 0 as a low, and as a high it ends
the attempt. An overflow gives an infinity; every operation here propagates it until a conversion to an integer raises.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from shapeproof.constraints.meaning.intervals import Interval
from shapeproof.constraints.nodes import MEMORY, Node, postorder
from shapeproof.constraints.reals import FromInt, Real, RealCall, RealConstant
from shapeproof.constraints.terms import ONE, Term
from shapeproof.solver.functions.doubles import Bounds

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
        """Return the enclosure of the double nearest to the value; None if it becomes too complex or too small."""
        widened = {}
        for term, (least, most) in self.parts.items():
            low, high = least * (1 - _HALF_ULP), most * (1 + _HALF_ULP)
            if high < _LEAST or max(low.denominator, high.denominator).bit_length() > _MOST_BITS:
                return None
            widened[term] = (low if low >= _LEAST else Fraction(0), high)
        return Enclosure(widened) if len(widened) <= _MOST_PARTS else None


def enclosure(real: Real, bounds: Bounds) -> Enclosure | None:
    """Return an enclosure of the expression, valid wherever it is finite; None if it is unknown or may be negative.

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
    match node, [known[each] for each in node.children if isinstance(each, Real)]:
        case RealConstant(value=value), _:
            return _constant(value)
        case FromInt(term), _:
            return _integer(term, within[term])
        case RealCall("inttruediv", (Term() as numerator, Term() as divisor)), _:
            return _quotient(numerator, within[numerator], within[divisor])
        case RealCall("mul") as product, [Enclosure() as left, Enclosure() as right]:
            return _product(product, left, right)
        case RealCall("add"), [Enclosure() as left, Enclosure() as right]:
            return _collected([*left.parts.items(), *right.parts.items()]).rounded()
        case RealCall("truediv"), [Enclosure() as left, Enclosure() as right]:
            return _over(left, right)
        case RealCall("sqrt", (FromInt(term),)), [Enclosure()]:
            return Enclosure({term: (Fraction(0), Fraction(1))})  # sqrt(1) == 1, and beyond it is far less
        case RealCall("log" | "log2", (FromInt(term),)), _ if (within[term].lower or 0) >= 1:
            return Enclosure({term: (Fraction(0), Fraction(1))})  # log(1) == 0
        case RealCall("pow", (FromInt(term), RealConstant(value=exponent))), [Enclosure(), _] if 0 < exponent <= 0.5:
            return Enclosure({term: (Fraction(0), Fraction(1))})  # as for the square root
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
    """Return the enclosure of Python's `/` of two integers, which rounds once."""
    if over.lower is None or over.lower < 0 or under.lower is None or under.lower < 1:
        return None
    low = Fraction(0) if under.upper is None else Fraction(1, under.upper)
    return Enclosure({numerator: (low, Fraction(1, under.lower))}).rounded()


def _product(node: RealCall, left: Enclosure, right: Enclosure) -> Enclosure | None:
    pairs = (
        (one * other, (low * least, high * most))
        for one, (low, high) in left.parts.items()
        for other, (least, most) in right.parts.items()
    )
    product = _collected(pairs)
    return product if _is_scaling(node) else product.rounded()


def _is_scaling(node: RealCall) -> bool:
    """True if an integer is multiplied by a power of two of moderate size: then nothing is rounded."""
    match sorted(node.args, key=lambda arg: isinstance(arg, RealConstant)):
        case [FromInt(), RealConstant(value=value)] if value:
            mantissa, exponent = math.frexp(value)
            return mantissa == 0.5 and abs(exponent) < 100
        case _:
            return False


def _over(left: Enclosure, right: Enclosure) -> Enclosure | None:
    """Return the enclosure of a quotient by a number."""
    least, most = right.parts.get(ONE, (Fraction(0), Fraction(0)))
    if right.parts.keys() != {ONE} or least < _LEAST:
        return None
    return Enclosure({term: (low / most, high / least) for term, (low, high) in left.parts.items()}).rounded()


def _collected(pairs: Iterable[tuple[Term, tuple[Fraction, Fraction]]]) -> Enclosure:
    parts: dict[Term, tuple[Fraction, Fraction]] = {}
    for term, (low, high) in pairs:
        least, most = parts.get(term, (Fraction(0), Fraction(0)))
        parts[term] = (least + low, most + high)
    return Enclosure(parts)
