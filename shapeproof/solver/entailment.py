"""Does a sum of known inequalities give this one? A small, greedy, deterministic search, no solver.

To show `t >= 0`, take from it a known `g >= 0` (times a factor that is known not to be negative) such that a monomial of
`t` that may be arbitrarily low cancels, and go on with what is left until intervals suffice. So `hi - lo >= 0` follows
from `mid - lo >= 0` and `hi - mid >= 0`. Besides the facts, each division, min and max brings what its definition says.
What this module answers is a proof or nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shapeproof.constraints import polynomials
from shapeproof.constraints.formulas import Compare
from shapeproof.constraints.terms import FloorDiv, Max, Min, Term, from_poly, of_atom

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from shapeproof.constraints.nodes import Node
    from shapeproof.constraints.polynomials import Monomial
    from shapeproof.solver.knowledge import Knowledge

_DEEPEST = 3
_MOST_TRIES = 24
_MOST_MONOMIALS = 24


class Entailment:
    """The search over one state of the knowledge; make another when the state changes."""

    def __init__(self, known: Knowledge) -> None:
        self._known = known
        self._by_monomial: dict[tuple[Monomial, bool], list[Term]] = {}
        self._defined: set[Node] = set()
        for formula in known.active:
            if isinstance(formula, Compare) and formula.op != "!=":
                self._enter(-formula.term)
                if formula.op == "==":
                    self._enter(formula.term)

    def _enter(self, nonnegative: Term) -> None:
        if len(nonnegative.monomials) > _MOST_MONOMIALS:
            return
        for monomial, coefficient in nonnegative.monomials:
            if monomial:
                self._by_monomial.setdefault((monomial, coefficient > 0), []).append(nonnegative)

    def nonnegative(self, term: Term) -> bool:
        """Whether `term >= 0` was shown."""
        tries = iter(range(_MOST_TRIES))
        return len(term.monomials) <= _MOST_MONOMIALS and self._shown(term, _DEEPEST, tries)

    def _shown(self, term: Term, depth: int, tries: Iterator[int]) -> bool:
        lower = self._known.bounds(term).lower
        if lower is not None and lower >= 0:
            return True
        if depth == 0:
            return False
        for rest in self._steps(term):
            if next(tries, None) is None:
                return False
            if self._shown(rest, depth - 1, tries):
                return True
        return False

    def _steps(self, term: Term) -> Iterator[Term]:
        """What is left of the term after taking away something that is known not to be negative."""
        for monomial, coefficient in term.monomials:
            if not monomial or not self._may_be_low(monomial, coefficient):
                continue
            self._define(atom for atom, _ in monomial)
            for part in _parts(monomial):
                factor = polynomials.over(monomial, part) or ()
                multiplier = from_poly({factor: 1})
                sign = self._nonnegative_or_opposite(multiplier)
                for fact in self._by_monomial.get((part, (coefficient > 0) == (sign > 0)), ()) if sign else ():
                    count, left = divmod(abs(coefficient), abs(fact.poly[part]))
                    if not left:
                        yield term - fact * multiplier * (count * sign)

    def _may_be_low(self, monomial: Monomial, coefficient: int) -> bool:
        known = self._known.bounds(from_poly({monomial: coefficient}))
        return known.lower is None or known.lower < 0 or known.lower != known.upper

    def _nonnegative_or_opposite(self, multiplier: Term) -> int:
        known = self._known.bounds(multiplier)
        if known.lower is not None and known.lower >= 0:
            return 1
        return -1 if known.upper is not None and known.upper <= 0 else 0

    def _define(self, atoms: Iterable[Node]) -> None:
        """Enter what the definitions of these atoms say."""
        for atom in atoms:
            if atom in self._defined:
                continue
            self._defined.add(atom)
            match atom:
                case FloorDiv(numerator, divisor) if self._known.sign(divisor) > 0:
                    rest = numerator - divisor * of_atom(atom)
                    self._enter(rest)
                    self._enter(divisor - rest - 1)
                case Min(args):
                    for arg in args:
                        self._enter(arg - of_atom(atom))
                case Max(args):
                    for arg in args:
                        self._enter(of_atom(atom) - arg)


def _parts(monomial: Monomial) -> Iterator[Monomial]:
    """The monomial, and it without one factor."""
    yield monomial
    if sum(exponent for _, exponent in monomial) > 1:
        for atom, _ in monomial:
            rest = polynomials.over(monomial, ((atom, 1),))
            if rest:
                yield rest
