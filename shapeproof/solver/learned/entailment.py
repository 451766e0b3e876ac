"""Does a sum of known inequalities give this one? A small, greedy, deterministic search, no solver.

To show `t >= 0`, take from it a known `g >= 0` (times a factor that is known not to be negative) that shares monomials
with it, and go on with what is left until intervals suffice. So `hi - lo >= 0` follows from `mid - lo >= 0` and
`hi - mid >= 0`. Besides the facts, each division, min, max and rounded quotient brings what its definition says.
What this module answers is a proof or nothing.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

from shapeproof.constraints import polynomials
from shapeproof.constraints.division import FloorDiv
from shapeproof.constraints.nodes import MEMORY
from shapeproof.constraints.terms import Apply, Max, Min, Term, from_poly, of_atom
from shapeproof.constraints.work import charge
from shapeproof.solver.functions.axioms import axioms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shapeproof.constraints.nodes import Node
    from shapeproof.constraints.polynomials import Monomial
    from shapeproof.solver.learned.knowledge import Knowledge

_DEEPEST = 3
_MOST_TRIES = 16
_MOST_COMPOUND_TRIES = 6
_MOST_STEPS = 4
_MOST_MONOMIALS = 200
_MOST_CANDIDATES = 64
"""Of the facts with a given monomial, so many are looked at, the oldest."""


def nonnegative(term: Term, known: Knowledge) -> bool:
    """Whether `term >= 0` was shown from what is known."""
    tries = iter(range(_MOST_TRIES if term.key[0] == 0 else _MOST_COMPOUND_TRIES))
    return len(term.monomials) <= _MOST_MONOMIALS and _shown(term, known, _DEEPEST, tries)


def _shown(term: Term, known: Knowledge, depth: int, tries: Iterator[int]) -> bool:
    lower = known.bounds(term).lower
    if lower is not None and lower >= 0:
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
    """Known terms that are not negative, and what to multiply each by: those first that cancel the most monomials."""
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
    """Known terms, not negative, in which this monomial has such a sign."""
    yield from islice(known.inequalities.of((part, positive)), _MOST_CANDIDATES)
    for atom, _ in part:
        for definition in _definition(atom, known):
            if part in definition.poly and (definition.poly[part] > 0) == positive:
                yield definition


def _definition(atom: Node, known: Knowledge) -> Iterator[Term]:
    """What the definition of an atom says is not negative."""
    match atom:
        case FloorDiv(_, divisor) if known.sign(divisor) > 0:
            yield from _remainder(atom)
        case Min() | Max():
            yield from _distances(atom)
        case Apply():
            yield from axioms(atom, known.bounds)


@lru_cache(maxsize=MEMORY)
def _remainder(atom: FloorDiv) -> tuple[Term, Term]:
    """For a positive divisor: the remainder, and what the divisor is more than the remainder and 1."""
    rest = atom.numerator - atom.divisor * of_atom(atom)
    return rest, atom.divisor - rest - 1


@lru_cache(maxsize=MEMORY)
def _distances(atom: Min | Max) -> tuple[Term, ...]:
    """How far each argument is from the least or the greatest."""
    sense = 1 if isinstance(atom, Min) else -1
    return tuple(sense * (arg - of_atom(atom)) for arg in atom.args)


def _known_sign(multiplier: Term, known: Knowledge) -> int:
    """1 or -1 where it is known not to be negative or not to be positive."""
    interval = known.bounds(multiplier)
    if interval.lower is not None and interval.lower >= 0:
        return 1
    return -1 if interval.upper is not None and interval.upper <= 0 else 0


def _parts(monomial: Monomial) -> Iterator[tuple[Monomial, Monomial]]:
    """The monomial as a product of two: all of it and nothing, and what is left without one of its atoms."""
    yield monomial, ()
    if sum(exponent for _, exponent in monomial) > 1:
        for atom, _ in monomial:
            rest = polynomials.over(monomial, ((atom, 1),))
            if rest:
                yield rest, ((atom, 1),)
