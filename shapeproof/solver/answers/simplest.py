"""The simplest term proved equal to another wherever the facts hold: a constant, a line, or the reduced term.

A guess is fitted to a few points and used only if it is proved. If no guess is proved within the budget, the reduced
term is returned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from shapeproof.constraints.formulas import eq
from shapeproof.constraints.meaning.evaluate import value_at
from shapeproof.constraints.nodes import postorder
from shapeproof.constraints.terms import Apply, Symbol, Term, constant, floor_div, maximum, minimum, symbol
from shapeproof.solver.facts import Facts
from shapeproof.solver.learned.reduction import substitute
from shapeproof.solver.prove import implied

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
        yield from _steps(name, places, 1)
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
    found = (stairs for divisor in _DIVISORS for stairs in _steps(name, places, divisor))
    return list(islice(found, _MOST_STAIRS))


def _steps(name: str, places: Sequence[tuple[int, int]], divisor: int) -> Iterator[Term]:
    """The floor divisions by the divisor of a line in the symbol that give all values; by 1, the line itself.

    >>> [*_steps("n", [(1, 5), (2, 7), (4, 11)], 1)], [*_steps("n", [(1, 1), (3, 2)], 1)]
    ([2*n + 3], [])
    >>> list(_steps("n", [(1, 1), (3, 2)], 2))
    [(n + 1)//2]
    """
    if not places or places[0][0] == places[-1][0]:
        return
    (x, y), (last, value) = places[0], places[-1]
    nearest = divisor * (value - y) // (last - x)
    for slope in (nearest, nearest + 1):  # no other fits the first and the last value
        low = max(divisor * value - slope * x for x, value in places)
        if low <= min(divisor * (value + 1) - 1 - slope * x for x, value in places):
            yield floor_div(slope * symbol(name) + low, divisor)
