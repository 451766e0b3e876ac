"""Bounds of terms over the ranges of their symbols, sharpened by known bounds of whole terms.

A fact such as `s0*s1 - u0 >= 0` bounds a term, not a symbol. Wherever that term occurs, up to a factor and a constant,
its bounds are used. The interval arithmetic is that of constraints/meaning/intervals.py.

Every fact changes the knowledge, but few bounds. So a memo that outlives the state stores, for each node, the bounds
that were read to compute its bounds, and the result. If all bounds read are still the same, so is the result. The memo
has several entries for a node, since questions go back and forth between states: with a fact, and with its negation.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from shapeproof.constraints import polynomials
from shapeproof.constraints.formulas import RealCompare
from shapeproof.constraints.meaning.intervals import Bounds, Interval
from shapeproof.constraints.nodes import MEMORY, Node
from shapeproof.constraints.polynomials import UNIT
from shapeproof.constraints.reals import Real
from shapeproof.constraints.terms import Apply, Symbol, Term, from_poly
from shapeproof.solver.functions.doubles import compared, rounded_bounds

if TYPE_CHECKING:
    from collections.abc import Mapping

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
