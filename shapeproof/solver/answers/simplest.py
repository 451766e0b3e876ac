"""The simplest term proved equal to another wherever the facts hold: a constant, a line, or the reduced term.

A guess is fitted to a few points and used only if it is proved. If no guess is proved within the budget, the reduced
term is returned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shapeproof.constraints.formulas import eq
from shapeproof.constraints.meaning.evaluate import value_at
from shapeproof.constraints.nodes import postorder
from shapeproof.constraints.terms import Apply, Symbol, constant, floor_div, maximum, minimum, symbol
from shapeproof.solver.learned.reduction import substitute
from shapeproof.solver.prove import implied

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from shapeproof.constraints.terms import Term
    from shapeproof.solver.facts import Facts

    Values = Sequence[tuple[Mapping[str, int], int]]


_STEPS = 64
"""The number of consecutive sizes that are searched for a pattern."""
_DIVISORS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 32, 64)
_MOST_STAIRS = 2


def simplest(term: Term, facts: Facts) -> Term:
    """Return the simplest term that is known to equal the term wherever the facts hold.

    >>> from shapeproof.constraints.syntax.text import parse_formula, parse_term
    >>> from shapeproof.solver.facts import Facts
    >>> facts = Facts([parse_formula("2 <= n <= 16"), parse_formula("n % 2 == 0")])
    >>> simplest(parse_term("n//(n//2)"), facts), simplest(parse_term("min(n, 16) + n//2*2"), facts)
    (2, 2*n)
    >>> simplest(parse_term("n - max(n, 3) + 3"), Facts([parse_formula("1 <= n <= 16")]))
    min(n, 3)
    >>> simplest(parse_term("ceil(n/4)"), Facts([parse_formula("1 <= n <= 16")]))
    (n + 3)//4
    """
    reduced = facts.reduce(term)
    if reduced.is_constant or (_is_polynomial(reduced) and reduced.symbols <= term.symbols):
        return reduced
    guesses = [*_guesses(_values(term, facts), sorted(term.symbols)), *_stairs(term, facts)]
    proved = (each for each in guesses if implied(eq(term, each), facts))
    return next(proved, substitute(reduced, dict(facts.known.definitions)))


def _is_polynomial(term: Term) -> bool:
    return all(isinstance(atom, Symbol) for factors, _ in term.monomials for atom, _ in factors)


def _values(term: Term, facts: Facts) -> Values:
    """Return the values of the term at a few points of the facts; empty if it has no value at one of them."""
    found = [(point, value_at(term, point)) for point in facts.points(term.symbols)]
    valued = [(point, value) for point, value in found if value is not None]
    return valued if len(valued) == len(found) else ()


def _guesses(values: Values, names: Sequence[str]) -> Iterator[Term]:
    """The constant, or else the lines in one symbol, clamped or not, through all values."""
    if values and len({value for _, value in values}) == 1:
        yield constant(values[0][1])
        return
    for name in names:
        places = sorted((point[name], value) for point, value in values)
        line = _line(places)
        if line is not None:
            yield line[0] * symbol(name) + line[1]
        yield from _clamped(name, places)


def _clamped(name: str, places: Sequence[tuple[int, int]]) -> Iterator[Term]:
    """The symbol, shifted and clamped at the greatest or the least value, if that gives all values."""
    if places:
        (x, y), (last, value) = places[0], places[-1]
        for moved, cut, end in ((y - x, min, value), (value - last, max, y)):
            if all(found == cut(place + moved, end) for place, found in places):
                yield {min: minimum, max: maximum}[cut](symbol(name) + moved, end)


def _stairs(term: Term, facts: Facts) -> list[Term]:
    """Return floor divisions `(slope*n + offset)//divisor` that give the first values of a term with floats in it."""
    (name, *others), rounded = sorted(term.symbols), any(isinstance(node, Apply) for node in postorder(term))
    lowest = facts.range_of(name).lower
    if others or not rounded or lowest is None:
        return []
    points = [{name: lowest + step} for step in range(_STEPS) if facts.contains({name: lowest + step})]
    places = [(point[name], value) for point in points if (value := value_at(term, point)) is not None]
    if len(places) < len(points):
        return []
    found = (_through(places, slope, divisor) for divisor in _DIVISORS for slope in _slopes(places, divisor))
    stairs = [floor_div(slope * symbol(name) + offset, divisor) for offset, slope, divisor in filter(None, found)]
    return stairs[:_MOST_STAIRS]


def _slopes(places: Sequence[tuple[int, int]], divisor: int) -> list[int]:
    """Return the slopes that are compatible with the first and the last value."""
    if len(places) < 2:
        return []
    (x, y), (last, value) = places[0], places[-1]
    nearest = divisor * (value - y) // (last - x)
    return [nearest, nearest + 1]


def _through(places: Sequence[tuple[int, int]], slope: int, divisor: int) -> tuple[int, int, int] | None:
    """Return the least offset, the slope and the divisor of the stairs through all values, or None."""
    low = max(divisor * value - slope * x for x, value in places)
    high = min(divisor * (value + 1) - 1 - slope * x for x, value in places)
    return (low, slope, divisor) if low <= high else None


def _line(places: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    """Return slope and offset of the line with integer coefficients through all values, or None.

    >>> _line([(1, 5), (2, 7), (4, 11)]), _line([(1, 1), (3, 2)])
    ((2, 3), None)
    """
    if not places or places[0][0] == places[-1][0]:
        return None
    (x, y), (last, value) = places[0], places[-1]
    slope = (value - y) // (last - x)
    offset = y - slope * x
    return (slope, offset) if all(value == slope * x + offset for x, value in places) else None
