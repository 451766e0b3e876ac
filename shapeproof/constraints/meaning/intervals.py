"""Sound integer bounds of terms over boxes. An answer may be "unbounded" or "unknown"; no answer is wrong.

Bounds are integers, not floats; None stands for no bound, and for a bound of thousands of digits. An answer covers the
points of the box where the term or formula is defined; evaluate.py gives the condition for that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from math import gcd
from typing import NamedTuple, TypeAlias

from shapeproof.constraints import polynomials
from shapeproof.constraints.division import with_halves_rounded_up
from shapeproof.constraints.errors import Unevaluable
from shapeproof.constraints.formulas import And, BooleanConstant, Compare, Formula, Or
from shapeproof.constraints.meaning.evaluate import holds, value_at
from shapeproof.constraints.nodes import Node, postorder
from shapeproof.constraints.polynomials import UNIT, Poly
from shapeproof.constraints.terms import Apply, Extremum, FloorDiv, Symbol, Term, Where, of_atom
from shapeproof.constraints.work import charge

_DEEPEST_FACTORING = 6
_MOST_RELAXATIONS = 6
_FARTHEST = 1 << 2**14
"""The largest absolute value of a bound."""

End: TypeAlias = tuple[int, int]  # (-1, 0) is minus infinity, (0, n) is n, (1, 0) is infinity: in the right order


class Interval(NamedTuple):
    """The integers from `lower` to `upper`, both included; None for no bound.

    A tuple, since most of the solver's time goes into making and comparing intervals.

    >>> Interval(1, 8) * Interval(-2, None)
    Interval(lower=-16, upper=None)
    >>> 0 in Interval(1, None)
    False
    """

    lower: int | None = None
    upper: int | None = None

    def __contains__(self, value: int) -> bool:  # type: ignore[override]
        return (self.lower is None or self.lower <= value) and (self.upper is None or value <= self.upper)

    @property
    def is_empty(self) -> bool:
        """True if the interval contains no integer."""
        return self.lower is not None and self.upper is not None and self.lower > self.upper

    @property
    def single(self) -> int | None:
        """The only integer in the interval; None if the interval has several, or none."""
        return self.lower if self.lower == self.upper else None

    @property
    def is_nonnegative(self) -> bool:
        """True if every integer in the interval is at least 0."""
        return self.lower is not None and self.lower >= 0

    @property
    def sign(self) -> int:
        """1 if every integer in the interval is positive, -1 if every one is negative, else 0."""
        if self.lower is not None and self.lower > 0:
            return 1
        return -1 if self.upper is not None and self.upper < 0 else 0

    def __neg__(self) -> Interval:
        return Interval(None if self.upper is None else -self.upper, None if self.lower is None else -self.lower)

    def __add__(self, other: Interval) -> Interval:  # type: ignore[override]
        return Interval(_plus(self.lower, other.lower), _plus(self.upper, other.upper))

    def __sub__(self, other: Interval) -> Interval:
        return self + -other

    def __mul__(self, other: Interval) -> Interval:  # type: ignore[override]
        return Interval(*_multiplied(self.lower, self.upper, other.lower, other.upper))

    def __floordiv__(self, other: Interval) -> Interval:
        above, below = other & _POSITIVE, -other & _POSITIVE
        parts = [_over_positive(self, above)] if not above.is_empty else []
        parts += [_over_positive(-self, below)] if not below.is_empty else []
        return hull(parts) if parts else Interval()

    def __pow__(self, exponent: int) -> Interval:
        powers = [None if end is None else _raised(end, exponent) for end in (self.lower, self.upper)]
        if exponent % 2:
            return Interval(*_within_reach(*powers))
        greatest = None if None in powers else max(power for power in powers if power is not None)
        least = 0 if 0 in self else powers[0] if self.lower is not None and self.lower > 0 else powers[1]
        return Interval(*_within_reach(least, greatest))

    def __and__(self, other: Interval) -> Interval:
        lower, upper = self.lower, self.upper
        if lower is None or (other.lower is not None and other.lower > lower):
            lower = other.lower
        if upper is None or (other.upper is not None and other.upper < upper):
            upper = other.upper
        return self if lower is self.lower and upper is self.upper else Interval(lower, upper)

    def ends(self) -> tuple[End, End]:
        """Return both ends, infinite ones included, in a form that `min` and `max` order."""
        return (-1, 0) if self.lower is None else (0, self.lower), (1, 0) if self.upper is None else (0, self.upper)


_POSITIVE = Interval(1, None)


def _plus(left: int | None, right: int | None) -> int | None:
    return None if left is None or right is None else left + right


def _multiplied(
    low: int | None, high: int | None, least: int | None, most: int | None
) -> tuple[int | None, int | None]:
    """Return the ends of `[low, high] * [least, most]`."""
    if low is high is None or least is most is None:
        return (0, 0) if low == high == 0 or least == most == 0 else (None, None)
    if low is None or high is None or least is None or most is None:
        ends = [_product(left, right) for left in Interval(low, high).ends() for right in Interval(least, most).ends()]
        product = _between(min(ends), max(ends))
        return _within_reach(product.lower, product.upper)
    if low >= 0 and least >= 0:
        return _within_reach(low * least, high * most)
    products = (low * least, low * most, high * least, high * most)
    return _within_reach(min(products), max(products))


def _within_reach(low: int | None, high: int | None) -> tuple[int | None, int | None]:
    """Weaken ends beyond the farthest bound: to the farthest bound, or to None."""
    if low is not None and not -_FARTHEST <= low <= _FARTHEST:
        low = _FARTHEST if low > 0 else None
    if high is not None and not -_FARTHEST <= high <= _FARTHEST:
        high = -_FARTHEST if high < 0 else None
    return low, high


def _raised(base: int, exponent: int) -> int:
    """Return `base**exponent`, or a value of the same sign that is out of reach too."""
    if (abs(base).bit_length() - 1) * exponent <= _FARTHEST.bit_length():
        return int(base**exponent)
    return -2 * _FARTHEST if base < 0 and exponent % 2 else 2 * _FARTHEST


def _product(left: End, right: End) -> End:
    signs = [end[0] or (end[1] > 0) - (end[1] < 0) for end in (left, right)]
    return (signs[0] * signs[1], 0) if left[0] or right[0] else (0, left[1] * right[1])


def _between(low: End, high: End) -> Interval:
    return Interval(None if low[0] else low[1], None if high[0] else high[1])


def _over_positive(numerator: Interval, divisor: Interval) -> Interval:
    """`numerator // divisor` for a divisor of at least 1: monotone in both, with the limits 0 and -1 at infinity."""
    low, high, least, most = numerator.lower, numerator.upper, divisor.lower or 1, divisor.upper
    lower = None if low is None else low // least if low < 0 else 0 if most is None else low // most
    upper = None if high is None else high // least if high >= 0 else -1 if most is None else high // most
    return Interval(lower, upper)


def hull(parts: Iterable[Interval]) -> Interval:
    """Return the smallest interval that contains all the parts; there must be at least one.

    >>> hull([Interval(1, 2), Interval(5, None)])
    Interval(lower=1, upper=None)
    """
    ends = [part.ends() for part in parts]
    return _between(min(low for low, _ in ends), max(high for _, high in ends))


class Bounds:
    """Bounds over one box; results are memoised.

    >>> from shapeproof.constraints.terms import symbol
    >>> b, n = symbol("b"), symbol("n")
    >>> Bounds({"b": Interval(1, 64), "n": Interval(8, 100)}).of(n * b - b)
    Interval(lower=7, upper=6336)
    """

    def __init__(self, ranges: Mapping[str, Interval]) -> None:
        self._ranges = ranges
        self._known: dict[Node, Interval | bool | None] = {}

    def of(self, term: Node) -> Interval:
        """Return an interval that contains the term or atom everywhere in the box."""
        value = self._visit(term)
        return value if isinstance(value, Interval) else Interval()

    def truth(self, formula: Formula) -> bool | None:
        """True or False if `formula` has that value wherever it is defined in the box; None if that is not seen."""
        value = self._visit(formula)
        return value if isinstance(value, bool) else None

    def _visit(self, root: Node) -> Interval | bool | None:
        if root not in self._known:
            for node in postorder(root):
                if node not in self._known:
                    self._known[node] = self._compute(node)
        return self._known[root]

    def _compute(self, node: Node) -> Interval | bool | None:
        match node:
            case Term():
                return self._polynomial(node.poly)
            case Symbol(name):
                return self._ranges.get(name, Interval())
            case FloorDiv(numerator, divisor):
                return self.of(numerator) // self.of(divisor)
            case Extremum(args):
                pick = min if node.sense > 0 else max
                ends = [self.of(arg).ends() for arg in args]
                return _between(pick(low for low, _ in ends), pick(high for _, high in ends))
            case Where(condition, then, otherwise):
                taken = self.truth(condition)
                sides = [then] * (taken is not False) + [otherwise] * (taken is not True)
                return hull(map(self.of, sides))
            case Apply():
                return self._applied(node)
            case BooleanConstant(value):
                return value
            case Compare(op, term):
                return _compared(op, self.of(term))
            case And(args):
                truths = [self.truth(arg) for arg in args]
                return False if False in truths else None if None in truths else True
            case Or(args):
                truths = [self.truth(arg) for arg in args]
                return True if True in truths else None if None in truths else False
            case Formula() if not node.symbols:
                with suppress(ArithmeticError, ValueError, Unevaluable):
                    return holds(node, {})
        return None

    def _applied(self, node: Apply) -> Interval:
        """Return bounds of the few functions with simple ones; without symbols, the exact value."""
        if not node.symbols:
            value = value_at(of_atom(node), {})
            return Interval(value, value)
        left, right = [self.of(arg) if isinstance(arg, Term) else Interval() for arg in (*node.args, node.args[0])][:2]
        match node.op:
            case "and":
                uppers = [arg.upper for arg in (left, right) if arg.is_nonnegative]
                known = [upper for upper in uppers if upper is not None]
                return Interval(0, min(known, default=None)) if uppers else Interval()
            case "or" | "xor" if min(left.ends()[0], right.ends()[0]) >= (0, 0):
                greatest = max(left.ends()[1], right.ends()[1])
                return Interval(0, None if greatest[0] else 2 ** greatest[1].bit_length() - 1)
            case "mul":
                return left * right
            case "pow" if right.single is not None and right.single >= 0:
                return left**right.single
            case "pow" if left.ends()[0] >= (0, 1):
                return self._power(left, right)
            case "lshift":
                return left * self._power(Interval(2, 2), right)
            case "rshift":
                return left // self._power(Interval(2, 2), right)
        return Interval()

    @staticmethod
    def _power(base: Interval, exponent: Interval) -> Interval:
        """`base**exponent` for a base of at least 1: monotone in both, and defined for exponents of at least 0."""
        if exponent.upper is not None and exponent.upper < 0:
            return Interval()
        lower = _raised(base.lower or 1, max(0, exponent.lower or 0))
        upper = None if base.upper is None or exponent.upper is None else _raised(base.upper, exponent.upper)
        return Interval(*_within_reach(lower, upper))

    def _polynomial(self, poly: Poly) -> Interval:
        """Bound the polynomial as it is, and with its floor divisions replaced one by one by their numerators.

        If `scale*poly == rest + factor*d*(n // d)`, then `scale*poly == rest + factor*n - factor*(n % d)`. Parts of
        `rest` and `n` may cancel, and `n % d` lies between 0 and d.
        """
        found = self._factored(poly)
        halved = with_halves_rounded_up(poly)
        if halved is not poly:
            found &= self._factored(halved)
        scale, slack = 1, Interval(0, 0)
        for _ in range(_MOST_RELAXATIONS):
            step = self._relaxed(poly)
            if step is None:
                break
            poly, times, loss = step
            scale, slack = scale * times, slack * Interval(times, times) + loss
            wide, unit = self._factored(poly) + slack, Interval(scale, scale)
            found &= Interval((-(-wide // unit)).lower, (wide // unit).upper)
        return found

    def _relaxed(self, poly: Poly) -> tuple[Poly, int, Interval] | None:
        """Return `(p, scale, loss)`: `scale * poly` is in `p + loss`, and p has one top-level floor division fewer."""
        atoms = {atom for monomial in poly for atom, power in monomial if isinstance(atom, FloorDiv) and power == 1}
        for atom in sorted(atoms, key=lambda each: each.key, reverse=True):
            step = self._without(atom, poly)
            if step is not None:
                return step
        return None

    def _without(self, atom: FloorDiv, poly: Poly) -> tuple[Poly, int, Interval] | None:
        beside, rest = polynomials.by_atom(poly, atom)
        below = atom.divisor.poly
        scale = below[UNIT] // gcd(below[UNIT], polynomials.content(beside)) if atom.divisor.is_constant else 1
        factor, left = polynomials.divide(polynomials.scaled(beside, scale), below)
        if left or any(each is atom for monomial in factor for each, _ in monomial):
            return None
        remainder = _remainder(self.of(atom.divisor))
        joined = polynomials.add(polynomials.scaled(rest, scale), polynomials.multiply(factor, atom.numerator.poly))
        return joined, scale, -(self._factored(factor) * remainder)

    def _summed(self, poly: Poly) -> Interval:
        """Bound the polynomial monomial by monomial."""
        charge(1 + 4 * polynomials.size(poly))
        low: int | None = 0
        high: int | None = 0
        for monomial, coefficient in poly.items():
            if low is high is None:
                break
            below: int | None = coefficient
            above: int | None = coefficient
            for atom, exponent in monomial:
                ends = self.of(atom)
                ends = ends if exponent == 1 else ends**exponent
                below, above = _multiplied(below, above, ends.lower, ends.upper)
            low = None if low is None or below is None else low + below
            high = None if high is None or above is None else high + above
        return Interval(low, high)

    def _factored(self, poly: Poly, depth: int = 0) -> Interval:
        """Bound monomial by monomial, and again with the most frequent atoms factored out, one after another."""
        total = self._summed(poly)
        if total.single is not None or depth > _DEEPEST_FACTORING:
            return total
        outside, factored = Interval(0, 0), False
        while (shared := _most_shared(poly)) is not None:
            inside, poly = polynomials.by_atom(poly, shared)
            outside += self.of(shared) * self._factored(inside, depth + 1)
            factored = True
        return total & (outside + self._factored(poly, _DEEPEST_FACTORING)) if factored else total


def _most_shared(poly: Poly) -> Node | None:
    """Return the atom that occurs in the most monomials, if it occurs in at least two."""
    counts: dict[Node, int] = {}
    for monomial in poly:
        for atom, _ in monomial:
            counts[atom] = counts.get(atom, 0) + 1
    most = max(counts, key=lambda atom: (counts[atom], atom.key), default=None)
    return most if most is not None and counts[most] > 1 else None


def _remainder(divisor: Interval) -> Interval:
    """Return an interval that contains `n % d` for every d in the divisor interval."""
    above = divisor.upper is None or divisor.upper > 0
    below = divisor.lower is None or divisor.lower < 0
    upper = (None if divisor.upper is None else divisor.upper - 1) if above else 0
    lower = (None if divisor.lower is None else divisor.lower + 1) if below else 0
    return Interval(lower, upper)


def _compared(op: str, value: Interval) -> bool | None:
    if op == "<=":
        if value.upper is not None and value.upper <= 0:
            return True
        return False if value.lower is not None and value.lower > 0 else None
    if value == Interval(0, 0):
        return op == "=="
    return None if 0 in value else op == "!="
