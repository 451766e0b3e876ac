"""Bounds of terms over the ranges of their symbols, sharpened by known bounds of whole terms.

A fact such as `s0*s1 - u0 >= 0` bounds a term, not a symbol. Wherever that term occurs, up to a factor and a constant,
its bounds are used. The interval arithmetic is that of constraints/meaning/intervals.py.

Every fact changes the knowledge, but few bounds. So a memo that outlives the state stores, for each node, the bounds
that were read to compute its bounds, and the result. If all bounds read are still the same, so is the result. The memo
has several entries for a node, since questions go back and forth between states: with a fact, and with its negation.

A fact about doubles bounds integers, too: an end of a range is cut off if the fact fails everywhere on that end, as
`ceil(n * 0.3) <= 3` implies `n <= 10`. No inverse of a double function is used, since none can be trusted. Instead, the
ranges of doubles.py show that a fact is false on a whole end, and bisection finds how far that end reaches.

Also remainders of symbols: facts about a remainder, and their consequences for other divisions of the symbol.

If `h % 8 >= 4` is known, `(h + 4)//8` is `h//8 + 1` and `h//4` is `2*(h//8) + 1`: every division is written with one
quotient. Padded sizes lead to many such divisions, and their products cancel only if written with the same quotient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from shapeproof.constraints import polynomials
from shapeproof.constraints.formulas import Compare, Formula, RealCompare, ge, le
from shapeproof.constraints.meaning.intervals import Bounds, Interval
from shapeproof.constraints.nodes import MEMORY, Node
from shapeproof.constraints.polynomials import UNIT
from shapeproof.constraints.reals import Real
from shapeproof.constraints.terms import Apply, FloorDiv, Symbol, Term, from_poly, of_atom, symbol
from shapeproof.solver.functions.doubles import compared, rounded_bounds

if TYPE_CHECKING:
    from shapeproof.solver.learned.knowledge import Knowledge

Value: TypeAlias = Interval | bool | None

EVERYTHING = Interval(None, None)

_Entry: TypeAlias = "tuple[tuple[tuple[Node, Value], ...], Value]"

_COMPUTED: dict[Node, tuple[_Entry, ...]] = {}
"""Node -> the bounds read when its own were computed, and the result; the last computation comes first."""
_MOST_ENTRIES = 8


class KnownBounds(Bounds):
    """Bounds over the ranges of the symbols that also use known bounds of whole terms."""

    def __init__(self, ranges: Mapping[str, Interval], linear: Mapping[Term, Interval]) -> None:
        super().__init__(ranges)
        self._box = ranges
        self._linear = linear
        self._reads: dict[Node, Value] = {}

    def _visit(self, root: Node) -> Value:
        known = self._known
        if root in known:
            value = self._reads[root] = known[root]
            return value
        stack = [root]
        while stack:
            node = stack[-1]
            waiting = [child for child in node.children if child not in known] if node not in known else []
            if waiting:
                stack.extend(waiting)
            else:
                stack.pop()
                if node not in known:
                    known[node] = self._sharpened(node, self._own(node))
        value = self._reads[root] = known[root]
        return value

    def _own(self, node: Node) -> Value:
        """Return the bounds that follow from the bounds of the node's children."""
        if isinstance(node, Symbol):
            return self._box.get(node.name, EVERYTHING)
        sum_of_symbols = self._sum(node) if isinstance(node, Term) and node.key[0] == 0 else None
        return sum_of_symbols or self._remembered(node)

    def _remembered(self, node: Node) -> Value:
        """Return the computed bounds of the node, from the memo if all bounds read for it are unchanged."""
        outer = self._reads
        entries = _COMPUTED.get(node, ())
        entry = next((entry for entry in entries if self._is_valid(entry)), None)
        if entry is None:
            self._reads = {}
            value = self._compute(node)
            entry = tuple(self._reads.items()), value
            if len(_COMPUTED) >= MEMORY:
                _COMPUTED.clear()
            _COMPUTED[node] = entry, *entries[: _MOST_ENTRIES - 1]
        self._reads = outer
        return entry[1]

    def _is_valid(self, entry: _Entry) -> bool:
        """True if all bounds read for the entry are unchanged; an entry without reads is never valid."""
        self._reads, reads = {}, entry[0]
        for node, value in reads:
            now = self._visit(node)
            if value is not now and value != now:
                return False
        return bool(reads)

    def _compute(self, node: Node) -> Value:
        value = super()._compute(node)
        match node:
            case Apply(op, (Real() as real,)) if isinstance(value, Interval):
                value &= rounded_bounds(op, real, self.of)
            case RealCompare() if value is None:
                value = compared(node, self.of)
        return value

    def _sharpened(self, node: Node, value: Value) -> Value:
        """Intersect the bounds with those known for the whole term."""
        if not self._linear or not isinstance(value, Interval) or isinstance(node, Symbol):
            return value
        term = node if isinstance(node, Term) else term_of(node)
        shape, scale = shape_of(term)
        known = self._linear.get(shape)
        if known is None:
            return value
        offset = term.poly.get(UNIT, 0)
        return value & (known * Interval(scale, scale) + Interval(offset, offset))

    def _sum(self, term: Term) -> Interval | None:
        """Bound a sum of symbols, the most frequent kind of term, in one pass."""
        low: int | None = 0
        high: int | None = 0
        for monomial, coefficient in term.monomials:
            match monomial:
                case ():
                    ends = Interval(1, 1)
                case ((Symbol(name), 1),):
                    ends = self._box.get(name, EVERYTHING)
                case _:
                    return None
            below, above = (ends.lower, ends.upper) if coefficient > 0 else (ends.upper, ends.lower)
            low = None if low is None or below is None else low + coefficient * below
            high = None if high is None or above is None else high + coefficient * above
        return Interval(low, high)


@lru_cache(maxsize=MEMORY)
def term_of(atom: Node) -> Term:
    """Return the term that consists of this atom alone."""
    return from_poly({((atom, 1),): 1})


def as_interval(op: str, term: Term) -> tuple[Term, Interval]:
    """Return `term op 0`, for "<=" or "==", as an interval of the term's shape; an empty one if no integer solves it.

    >>> from shapeproof.constraints.syntax.text import parse_term
    >>> as_interval("<=", parse_term("6 - 4*n")), as_interval("==", parse_term("2*n - 5"))[1].is_empty
    ((n, Interval(lower=2, upper=None)), True)
    """
    shape, scale = shape_of(term)
    offset = term.poly.get(UNIT, 0)
    least, most = -(offset // scale), -offset // scale
    return shape, Interval(least if op == "==" or scale < 0 else None, most if op == "==" or scale > 0 else None)


@lru_cache(maxsize=MEMORY)
def shape_of(term: Term) -> tuple[Term, int]:
    """Return `(shape, scale)` with `term == scale*shape + constant`.

    The shape has no constant and a positive leading coefficient: `6 - 4*n` has the shape `n` and the scale -4.
    """
    poly = polynomials.without_constant(term.poly)
    if not poly:
        return term, 0
    scale = polynomials.content(poly)
    if poly[term.monomials[0][0]] < 0:
        scale = -scale
    return from_poly({monomial: coefficient // scale for monomial, coefficient in poly.items()}), scale


_FARTHEST = 2**63
"""The search stops here: tensor sizes are smaller."""


def shaved(formula: Formula, known: Knowledge) -> Iterator[Formula]:
    """Infer bounds of single symbols from a reduced comparison with doubles and from the symbols' ranges.

    >>> from shapeproof.constraints.syntax.text import parse_formula
    >>> from shapeproof.solver.learned.knowledge import Knowledge
    >>> list(shaved(parse_formula("ceil(n * 0.3) <= 3"), Knowledge()))
    [n <= 10]
    """
    for name in sorted(formula.symbols) if _is_of_doubles(formula) else ():
        low, high = known.range_of(name).lower, known.range_of(name).upper
        last = max(_FARTHEST, low or 0) if high is None else high
        first = min(-_FARTHEST, last) if low is None else low
        fails = _failing(formula, name, known)
        kept = _reach(first, last, lambda end: fails(Interval(low, end)))  # noqa: B023  (called at once)
        if kept is not None:
            yield ge(symbol(name), kept)
        kept = _reach(last, first, lambda end: fails(Interval(end, high)))  # noqa: B023
        if kept is not None:
            yield le(symbol(name), kept)


def _is_of_doubles(formula: Formula) -> bool:
    match formula:
        case RealCompare():
            return True
        case Compare(_, term):
            atoms = (atom for monomial in term.poly for atom, _ in monomial)
            return any(isinstance(atom, Apply) and isinstance(atom.args[0], Real) for atom in atoms)
        case _:
            return False


def _failing(formula: Formula, name: str, known: Knowledge) -> Callable[[Interval], bool]:
    """Return a test of intervals: True if the formula is false for each value in it, with other symbols in range."""
    ranges = {each: known.range_of(each) for each in formula.symbols}
    return lambda interval: KnownBounds(ranges | {name: interval}, {}).truth(formula) is False


def _reach(start: int, stop: int, fails: Callable[[int], bool]) -> int | None:
    """Return the first end from `start` towards `stop` for which `fails` is false; None if that is `start`."""
    if not fails(start):
        return None
    step = 1 if start <= stop else -1
    failing, limit = 0, abs(stop - start) + 1
    while limit - failing > 1:
        middle = (failing + limit) // 2
        failing, limit = (middle, limit) if fails(start + step * middle) else (failing, middle)
    return start + step * limit


@dataclass(frozen=True, slots=True)
class Remainder:
    """`name == sign * modulus * quotient + rest`."""

    name: str
    modulus: int
    sign: int
    quotient: FloorDiv

    @property
    def rest(self) -> Term:
        """The remainder as a term."""
        return symbol(self.name) - self.sign * self.modulus * of_atom(self.quotient)

    @property
    def is_plain(self) -> bool:
        """True if the quotient is `name // modulus`, without an offset."""
        return self.quotient.numerator is symbol(self.name)


def remainder_in(shape: Term) -> Remainder | None:
    """Return the remainder that the term represents, or None.

    >>> from shapeproof.constraints.syntax.text import parse_term
    >>> remainder_in(parse_term("h - 8*((h + 4)//8)")).modulus, remainder_in(parse_term("h - 4*((h + 4)//8)"))
    (8, None)
    """
    if len(shape.monomials) != 2 or UNIT in shape.poly:
        return None
    parts = {atom: (power, n) for monomial, n in shape.monomials for atom, power in monomial}
    match sorted(parts, key=lambda atom: isinstance(atom, FloorDiv)):
        case [Symbol(name) as size, FloorDiv(numerator, divisor) as quotient] if divisor.is_constant:
            inside = polynomials.without_constant(numerator.poly)
            modulus, (power, scale) = divisor.constant_value, parts[quotient]
            sign = inside.get(((size, 1),), 0)
            if len(inside) == 1 and abs(sign) == 1 and parts[size] == (1, 1) and (power, scale) == (1, -sign * modulus):
                return Remainder(name, modulus, sign, quotient)
    return None


def plainly(remainder: Remainder, rest: Interval) -> list[Formula] | None:
    """Return `rest in interval` as formulas about `name % modulus`, if those are one interval too; otherwise None."""
    if rest.lower is None or rest.upper is None or remainder.is_plain:
        return None
    whole = rest.lower // remainder.modulus
    if whole != rest.upper // remainder.modulus:
        return None
    plain = symbol(remainder.name) % remainder.modulus
    shift = whole * remainder.modulus
    return [ge(plain, rest.lower - shift), le(plain, rest.upper - shift)]


def by_remainders(atom: FloorDiv, known: Knowledge) -> Term | None:
    """Rewrite a division by a constant with another quotient of one of its symbols, if the remainder is pinned.

    With `h == m*q + r`: `(k*h + p)//d` is `k*m//d*q + (k*r + p)//d`, where d divides k*m.
    """
    numerator, divisor = atom.numerator, atom.divisor.constant_value
    for monomial, scale in numerator.monomials:
        match monomial:
            case ((Symbol(name), 1),):
                remainders: tuple[Remainder, ...] = known.remainders.get(name, ())
                for each in remainders:
                    step = scale * each.sign * each.modulus
                    if step % divisor == 0 and each.quotient is not atom:
                        others = from_poly(polynomials.add(numerator.poly, {monomial: -scale}))
                        rest = known.bounds(each.rest) * Interval(scale, scale) + known.bounds(others)
                        pinned = (rest // Interval(divisor, divisor)).single
                        if pinned is not None:
                            return of_atom(each.quotient) * (step // divisor) + pinned
    return None
