"""Does a sum of known inequalities imply this one? A small, greedy, deterministic search without a solver.

To show `t >= 0`, subtract a known `g >= 0` that shares monomials with t, times a nonnegative factor, and repeat until
intervals suffice. So `hi - lo >= 0` follows from `mid - lo >= 0` and `hi - mid >= 0`. Besides the facts, each division,
min, max and rounded quotient contributes the inequalities of its definition. Law: True is a proof; False means unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

from shapeproof.constraints import polynomials
from shapeproof.constraints.division import FloorDiv
from shapeproof.constraints.nodes import MEMORY, Node
from shapeproof.constraints.polynomials import Monomial
from shapeproof.constraints.terms import Apply, Extremum, Term, from_poly, of_atom
from shapeproof.constraints.work import charge
from shapeproof.solver.functions.axioms import axioms

if TYPE_CHECKING:
    from shapeproof.solver.learned.knowledge import Knowledge

_DEEPEST = 3
_MOST_TRIES = 16
_MOST_COMPOUND_TRIES = 6
_MOST_STEPS = 4
_MOST_MONOMIALS = 200
_MOST_CANDIDATES = 64
"""The most facts, the oldest first, that are tried for one monomial."""


def nonnegative(term: Term, known: Knowledge) -> bool:
    """True if `term >= 0` was shown from what is known."""
    tries = iter(range(_MOST_TRIES if term.key[0] == 0 else _MOST_COMPOUND_TRIES))
    return len(term.monomials) <= _MOST_MONOMIALS and _shown(term, known, _DEEPEST, tries)


def _shown(term: Term, known: Knowledge, depth: int, tries: Iterator[int]) -> bool:
    if known.bounds(term).is_nonnegative:
        return True
    if depth == 0:
        return False
    for fact, multiplier in _most_alike(term, known):
        if next(tries, None) is None:
            return False
        if _shown(term - fact * multiplier, known, depth - 1, tries):
            return True
    return False


def _most_alike(term: Term, known: Knowledge) -> list[tuple[Term, Term]]:
    """Return nonnegative known terms with a multiplier for each; those that cancel the most monomials come first."""
    charge(len(term.monomials))
    shared: dict[tuple[Term, Monomial, int], int] = {}
    for monomial, coefficient in term.monomials:
        for part, factor in _parts(monomial) if monomial else ():
            sign = _known_sign(from_poly({factor: 1}), known) if factor else 1
            for fact in _candidates(part, (coefficient > 0) == (sign > 0), known) if sign else ():
                charge(1)
                count, left = divmod(abs(coefficient), abs(fact.poly[part]))
                if not left:
                    step = (fact, factor, count * sign)
                    shared[step] = shared.get(step, 0) + 1
    ranked = sorted(
        shared, key=lambda step: (shared[step] < len(step[0].monomials), -shared[step], len(step[0].monomials))
    )
    return [(fact, from_poly({factor: scale})) for fact, factor, scale in ranked[:_MOST_STEPS]]


def _candidates(part: Monomial, positive: bool, known: Knowledge) -> Iterator[Term]:  # noqa: FBT001
    """Nonnegative known terms in which this monomial has this sign."""
    yield from islice(known.inequalities.of((part, positive)), _MOST_CANDIDATES)
    for atom, _ in part:
        for definition in _definition(atom, known):
            if part in definition.poly and (definition.poly[part] > 0) == positive:
                yield definition


def _definition(atom: Node, known: Knowledge) -> Iterator[Term]:
    """The nonnegative terms of an atom's definition."""
    match atom:
        case FloorDiv(_, divisor) if known.sign(divisor) > 0:
            yield from _remainder(atom)
        case Extremum():
            yield from _distances(atom)
        case Apply():
            yield from axioms(atom, known.bounds)


@lru_cache(maxsize=MEMORY)
def _remainder(atom: FloorDiv) -> tuple[Term, Term]:
    """Return `r` and `d - r - 1`, both nonnegative, for the remainder r of a division by a positive divisor d."""
    rest = atom.numerator - atom.divisor * of_atom(atom)
    return rest, atom.divisor - rest - 1


@lru_cache(maxsize=MEMORY)
def _distances(atom: Extremum) -> tuple[Term, ...]:
    """Return the nonnegative distances of the arguments from the min or max."""
    return tuple(atom.sense * (arg - of_atom(atom)) for arg in atom.args)


def _known_sign(multiplier: Term, known: Knowledge) -> int:
    """Return 1 or -1 if the term is known to be `>= 0` or `<= 0`, else 0."""
    interval = known.bounds(multiplier)
    return 1 if interval.is_nonnegative else -1 if (-interval).is_nonnegative else 0


def _parts(monomial: Monomial) -> Iterator[tuple[Monomial, Monomial]]:
    """The factorisations of a monomial: the whole and nothing, and the rest and one of its atoms."""
    yield monomial, ()
    if sum(exponent for _, exponent in monomial) > 1:
        for atom, _ in monomial:
            rest = polynomials.over(monomial, ((atom, 1),))
            if rest:
                yield rest, ((atom, 1),)
