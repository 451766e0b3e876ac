"""Search near the samples for a point at which a formula holds, by evaluation.

The search may miss a point; it proves nothing. From each sample, one symbol is moved to values where the truth tends to
change: ends of ranges, 0, 1 and 2, constants of the formula, roots of comparisons that are linear in the symbol, and
steps through the remainders by its largest divisor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from shapeproof.constraints.formulas import Compare, Formula
from shapeproof.constraints.meaning.evaluate import true_at, value_at
from shapeproof.constraints.nodes import postorder
from shapeproof.constraints.polynomials import UNIT
from shapeproof.constraints.terms import FloorDiv, Symbol, Term, from_poly
from shapeproof.solver.cases import divided
from shapeproof.solver.facts import Facts
from shapeproof.solver.sampled.points import Point, doubles, moved

_MOST_BASES = 2
_MOST_VALUES = 12
_MOST_SYMBOLS = 8
_PARTS = 8


def search(reduced: Formula, original: Formula, facts: Facts) -> Point | None:
    """Return a point where all facts and the formula hold, confirmed by evaluating the original formula; or None."""
    for candidate, changed in _moves(reduced, facts):
        if true_at(reduced, candidate) and true_at(original, candidate):
            point = facts.add_point(candidate, changed)
            if point is not None:
                return point
    return None


def _moves(reduced: Formula, facts: Facts) -> Iterator[tuple[Point, set[str]]]:
    """Samples with one symbol moved, and the names of the values that may change."""
    known = facts.known
    names = sorted(reduced.symbols)[:_MOST_SYMBOLS]
    constants, shifts, (floats, odd) = _constants(reduced), _shifts(reduced), doubles([reduced])
    for base in _bases(facts.points(reduced.symbols)):
        for name in names:
            interval = known.range_of(name)
            ends = [end for end in (interval.lower, interval.upper) if end is not None]
            values = [*_roots(reduced, name, base), *ends, *(end + 1 for end in ends[:1]), 0, 1, 2, *constants]
            around = [base[name] + shift for shift in shifts.get(name, ())] + (odd if name in floats else [])
            for value in dict.fromkeys([*values[: _MOST_VALUES + len(ends)], *around]):
                candidate = moved(known, base, name, value) if value in interval else None
                if candidate is not None:
                    yield candidate


def _bases(samples: list[Point]) -> list[Point]:
    """Return the first samples and the largest one: a symbol that others bound from above can be moved furthest there.

    >>> _bases([{"n": 7, "u": 0}, {"n": 1, "u": 1}, {"n": 3, "u": 0}, {"n": 64, "u": 0}])
    [{'n': 7, 'u': 0}, {'n': 1, 'u': 1}, {'n': 64, 'u': 0}]
    """
    first = samples[:_MOST_BASES]
    largest = max(samples[_MOST_BASES:], key=lambda each: sum(each.values()), default=None)
    return first if largest is None else [*first, largest]


def _shifts(formula: Formula) -> dict[str, list[int]]:
    """Return symbol -> evenly spaced steps in both directions through the remainders by its largest modulus."""
    parts = [part for part in range(-_PARTS, _PARTS + 1) if part]
    return {name: [max(moduli) * part // _PARTS for part in parts] for name, moduli in divided(formula).items()}


def _constants(formula: Formula) -> list[int]:
    found: dict[int, None] = {}
    for node in postorder(formula):
        if isinstance(node, Term):
            offset = node.poly.get(UNIT, 0)
            found.update({abs(offset): None, abs(offset) + 1: None, max(0, abs(offset) - 1): None})
        if isinstance(node, FloorDiv) and node.divisor.is_constant:
            found[node.divisor.constant_value] = None
    return list(found)


def _roots(formula: Formula, name: str, point: Mapping[str, int]) -> Iterator[int]:
    """The values at which comparisons that are linear in the symbol change their truth."""
    for node in postorder(formula):
        if isinstance(node, Compare):
            slope = {each: n for each, n in node.term.poly.items() if any(atom.symbols == {name} for atom, _ in each)}
            match [*slope]:
                case [((Symbol(), 1),) as monomial]:
                    rest = from_poly({each: n for each, n in node.term.poly.items() if each != monomial})
                    value = value_at(rest, point)
                    if value is not None:
                        root = -value // slope[monomial]
                        yield from (root, root + 1, root - 1)
