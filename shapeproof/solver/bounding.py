"""Bounds of terms over the ranges of their symbols, sharpened by what is known of whole terms.

A fact such as `s0*s1 - u0 >= 0` bounds a term and not a symbol; wherever that term occurs, up to a factor and a
constant, its bounds are used. The bounds themselves are those of constraints.intervals.
"""

from __future__ import annotations

from shapeproof.constraints import polynomials
from shapeproof.constraints.intervals import Bounds, Interval
from shapeproof.constraints.nodes import Node
from shapeproof.constraints.polynomials import UNIT
from shapeproof.constraints.reals import Real
from shapeproof.constraints.terms import Apply, Symbol, Term, from_poly
from shapeproof.solver.doubles import rounded_bounds

EVERYTHING = Interval(None, None)


class KnownBounds(Bounds):
    """Bounds over the ranges of the symbols that also use what is known of whole terms."""

    def __init__(self, ranges: dict[str, Interval], linear: dict[Term, Interval]) -> None:
        super().__init__(ranges)
        self._box = ranges
        self._linear = linear

    def _visit(self, root: Node) -> Interval | bool | None:
        stack = [root]
        while stack:
            node = stack[-1]
            waiting = [child for child in node.children if child not in self._known] if node not in self._known else []
            if waiting:
                stack.extend(waiting)
            else:
                stack.pop()
                if node not in self._known:
                    self._known[node] = self._compute(node)
        return self._known[root]

    def _compute(self, node: Node) -> Interval | bool | None:
        sum_of_symbols = self._sum(node) if isinstance(node, Term) and node.key[0] == 0 else None
        value = sum_of_symbols or super()._compute(node)
        match node:
            case Apply(op, (Real() as real,)) if isinstance(value, Interval):
                value &= rounded_bounds(op, real, self.of)
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
        """Bounds of a sum of symbols, the most frequent kind of term, in one pass."""
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


def term_of(atom: Node) -> Term:
    """The term that is this atom alone."""
    return from_poly({((atom, 1),): 1})


def shape_of(term: Term) -> tuple[Term, int]:
    """`(shape, scale)` with `term == scale*shape + constant`; the shape has no constant and a positive leading sign."""
    poly = {monomial: coefficient for monomial, coefficient in term.poly.items() if monomial}
    if not poly:
        return term, 0
    scale = polynomials.content(poly)
    if poly[term.monomials[0][0]] < 0:
        scale = -scale
    return from_poly({monomial: coefficient // scale for monomial, coefficient in poly.items()}), scale
