"""Points to show: any point at which a formula holds, the smallest, and a generic one to trace at.

Law: every point is evaluated before it is returned: all facts and the formula hold there.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from shapeproof.constraints.formulas import TRUE, Formula, conjunction, disjunction, ge, le, ne
from shapeproof.constraints.meaning.evaluate import evaluate, holds_at, true_at
from shapeproof.constraints.records.verdicts import Proved, Refuted, Undecided, Vacuous
from shapeproof.constraints.terms import ZERO, Term, maximum, symbol
from shapeproof.constraints.work import current_meter
from shapeproof.solver.budget import until_spent
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import decide
from shapeproof.solver.sampled.points import Point, doubles, moved, named, public

_SMALL, _LARGE = 5, 200
"""Sizes to trace at, and to run eager with."""
_TRIED = 512
"""The number of points tried one by one before the solver is asked for the smallest."""
_START = 0, 0
"""The least greatest value, and the least sum, of points."""


def find(formula: Formula, facts: Facts) -> Point | Undecided | None:
    """Return a point at which the facts and the formula hold; None if it is proved that there is none.

    >>> from shapeproof.constraints.syntax.text import parse_formula
    >>> from shapeproof.solver.facts import Facts
    >>> find(parse_formula("n > 9"), Facts([parse_formula("n % 8 == 0"), parse_formula("0 <= n < 20")]))
    {'n': 16}
    """
    for point in facts.points(formula.symbols):
        if true_at(formula, point):
            return public(point)
    verdict = decide(formula.negation, facts)
    match verdict:
        case Proved() | Vacuous():
            return None
        case Refuted(witness) if true_at(formula, witness):
            return dict(witness)
        case Undecided():
            return verdict
        case _:
            return Undecided("the formula may be undefined")


def smallest(formula: Formula, facts: Facts, order: Sequence[str] | None = None) -> Point | Undecided | None:
    """Return the smallest point at which the facts and the formula hold.

    Points are compared by the greatest absolute value of the symbols in `order` (by default all symbols, by name); then
    by the sum of their absolute values; then value by value, the absolute value before the sign, and 1 before -1. If
    the budget runs out, the best point found so far is returned.

    >>> from shapeproof.constraints.syntax.text import parse_formula
    >>> from shapeproof.solver.facts import Facts
    >>> smallest(parse_formula("a + b > 6"), Facts([parse_formula("a >= 0"), parse_formula("b % 3 == 0")]))
    {'a': 4, 'b': 3}
    """
    key = ("smallest", formula, None if order is None else tuple(order), facts.budget)
    if key not in facts.answers:
        near = next(_near(formula, facts, order), None)
        found = _smallest_by_solver(formula, facts, order) if near is None else near
        if current_meter() or isinstance(found, Undecided):  # a task around this one may have cut it short
            return found
        facts.answers[key] = found
    else:
        found = facts.answers[key]
    return None if found is None else dict(found)


def _smallest_by_solver(formula: Formula, facts: Facts, order: Sequence[str] | None) -> Point | Undecided | None:
    """Return the smallest point, found by asking for smaller ones; each least measure is a start for enumeration."""
    found = find(formula, facts)
    if found is None or isinstance(found, Undecided):
        return found
    names = list(order) if order is not None else sorted(found)
    here = facts.fork()
    best = dict.fromkeys(names, 0) | found  # the facts do not mention a symbol that the point leaves out
    names = [name for name in names if isinstance(best[name], int)]  # a double stays as it was found
    with until_spent(facts.budget.for_a_task):
        here.learn(formula)
        for known, measure in enumerate(_measures(names), 1):
            best = _least(measure, here, best)
            near = next(_near(TRUE, here, order, _start(best, names, known)), None) if known <= len(_START) else None
            if near is not None:
                return near
    return best


def ascending(facts: Facts, order: Sequence[str]) -> Iterator[Point]:
    """The points of the facts, the smallest first, no two alike in all of `order`, until no further point is found.

    >>> from shapeproof.constraints.syntax.text import parse_formula
    >>> from shapeproof.solver.facts import Facts
    >>> list(ascending(Facts([parse_formula("n >= 1"), parse_formula("n*n < 10")]), ["n"]))
    [{'n': 1}, {'n': 2}, {'n': 3}]
    """
    left, start = facts.fork(), _START
    while True:
        passed: list[Point] = []
        for point in _near(TRUE, left, order, start):
            yield point
            passed.append(point)
        for point in passed:  # only the solver has to be told
            left.learn(_other_than(point, order))
        found = _smallest_by_solver(TRUE, left, order)
        if not isinstance(found, dict):
            return
        yield found
        left.learn(_other_than(found, order))
        start = _start(found, order)


def _other_than(point: Point, order: Sequence[str]) -> Formula:
    return disjunction(*(ne(symbol(name), point[name]) for name in order))


def _start(point: Point, order: Sequence[str], known: int = len(_START)) -> tuple[int, int]:
    """Return the greatest absolute value and the sum of a point, 0 for a measure whose least value is not known."""
    values = [abs(point[name]) for name in order if isinstance(point[name], int)]
    return max(values, default=0), sum(values) if known > 1 else 0


def _near(
    formula: Formula, facts: Facts, order: Sequence[str] | None, start: tuple[int, int] = _START
) -> Iterator[Point]:
    """Points of the facts and the formula in the order of `smallest`, without gaps, for at most `_TRIED` candidates.

    `start`: the greatest value and the sum of the first candidates.

    Empty unless every symbol is a size with a known lower bound of at least 0. In that case, enumeration is a hundred
    times as fast as asking a solver for smaller and smaller points.
    """
    symbols = frozenset().union(formula.symbols, *(fact.symbols for fact in facts.formulas))
    names = sorted(symbols) if order is None else list(order)
    ranges = [facts.range_of(name) for name in names]
    lows = [interval.lower for interval in ranges if interval.lower is not None and interval.lower >= 0]
    if not names or len(lows) < len(names) or not symbols <= set(names) or doubles((formula, *facts.formulas))[0]:
        return
    for values in itertools.islice(_tuples(lows, [interval.upper for interval in ranges], start), _TRIED):
        point = dict(zip(names, values, strict=True))
        if holds_at(formula, point) and facts.contains(point):
            yield point


def _tuples(
    lows: Sequence[int], highs: Sequence[int | None], start: tuple[int, int] = _START
) -> Iterator[tuple[int, ...]]:
    """All points of a box of nonnegative integers, by the greatest value, then by the sum, then lexicographically.

    The points before a greatest value and a sum are left out.

    >>> list(_tuples([0, 1], [1, 2]))
    [(0, 1), (1, 1), (0, 2), (1, 2)]
    >>> list(_tuples([0, 1], [1, 2], (2, 3)))
    [(1, 2)]
    """
    if any(high is not None and high < low for low, high in zip(lows, highs, strict=True)):
        return
    greatest = max(*lows, start[0])
    while any(high is None or high >= greatest for high in highs):
        most = [greatest if high is None else min(high, greatest) for high in highs]
        further = min(greatest - low for low, high in zip(lows, most, strict=True) if high == greatest)
        least = max(sum(lows) + further, start[1] if greatest == start[0] else 0)
        for total in range(least, sum(most) + 1):
            yield from _of_sum(lows, most, total, greatest)
        greatest += 1


def _of_sum(lows: Sequence[int], highs: Sequence[int], total: int, greatest: int | None) -> Iterator[tuple[int, ...]]:
    """The points of a box with this sum and this greatest value, in lexicographic order.

    `highs` must not exceed that value. None: the greatest value occurs already among the earlier coordinates.
    """
    if not _possible(lows, highs, total, greatest):
        return
    if not lows:
        yield ()
        return
    least, most = sum(lows[1:]), sum(highs[1:])
    for value in range(max(lows[0], total - most), min(highs[0], total - least) + 1):
        wanted = None if value == greatest else greatest
        yield from ((value, *rest) for rest in _of_sum(lows[1:], highs[1:], total - value, wanted))


def _possible(lows: Sequence[int], highs: Sequence[int], total: int, greatest: int | None) -> bool:
    """True if `_of_sum` has points: the rest of the sum fits beside a greatest value."""
    if greatest is None:
        return sum(lows) <= total <= sum(highs)
    beside = ((sum(lows) - low, sum(highs) - high) for low, high in zip(lows, highs, strict=True) if high == greatest)
    return any(least <= total - greatest <= most for least, most in beside)


def _size(name: str) -> Term:
    return maximum(symbol(name), -symbol(name))


def _measures(names: Sequence[str]) -> Iterator[Term]:
    """The terms to minimise, in order; each is at least 0."""
    if names:
        yield maximum(*(_size(name) for name in names))
        yield sum((_size(name) for name in names), ZERO)
    for name in names:
        yield _size(name)
        yield _size(name) - symbol(name)  # 0 for a nonnegative value


def _least(measure: Term, facts: Facts, best: Point) -> Point:
    """Return the point with the least measure, and add to the facts that the measure is no greater.

    A double stays as it was found: the solver may find one for a symbol that was an integer at an earlier point.
    """
    if _is_of_a_double(measure, best):
        return best
    low, high = 0, evaluate(measure, best)
    while low < high:
        middle = (low + high) // 2
        point = find(le(measure, middle), facts)
        if isinstance(point, Undecided):
            break
        if point is None:
            low = middle + 1
        elif _is_of_a_double(measure, point):
            break
        else:
            best, high = point, evaluate(measure, point)
    facts.learn(le(measure, high))
    return best


def _is_of_a_double(measure: Term, point: Point) -> bool:
    return any(isinstance(point.get(name), float) for name in measure.symbols)


def generic(facts: Facts, names: Sequence[str]) -> Point | Undecided | None:
    """Return a generic point to trace at: small values, not 0 or 1, pairwise distinct.

    These are wishes; as many as the facts allow are granted. Values are chosen one by one and checked by evaluation.
    The solver is asked only about sizes that are still 0 or 1, so n sizes cost at most n questions.

    >>> from shapeproof.constraints.syntax.text import parse_formula
    >>> from shapeproof.solver.facts import Facts
    >>> generic(Facts([parse_formula("b >= 1"), parse_formula("h % 32 == 0")]), ["b", "h"])
    {'b': 5, 'h': 32}
    """
    found = None if facts.contradictory else find(TRUE, facts)
    if not isinstance(found, dict):
        return found
    known = {facts.reduce(symbol(name)): name for name in reversed(names)}  # of equal sizes, the first represents all
    free = [name for value, name in reversed(known.items()) if isinstance(value, Term) and not value.is_constant]
    sizes = {name: _usual(max(facts.range_of(name).lower or 0, 0)) for name in free}
    here, accidents = facts.aside(), functools.partial(_accidents, sizes)
    point, *others = here.points(names) or [dict.fromkeys(names, 0) | found]
    with until_spent(facts.budget.for_a_task):
        point = _without_accidents(point, sizes, here)
        for other in others if any(accidents(point)[0]) else ():
            point = min(point, _without_accidents(other, sizes, here), key=accidents)
        for name in [name for name in sizes if point[name] in {0, 1}]:
            general = [each for each in sizes if each == name or point[each] not in {0, 1}]
            asked = find(conjunction(*(ge(symbol(each), 2) for each in general)), here)
            whole = named(here.known, {**point, **asked}) if isinstance(asked, dict) else None
            if whole is not None and here.add_point(whole):
                point = min(point, _without_accidents(whole, sizes, here), key=accidents)
    return public(point) if here.add_point(point, point) else found


def _usual(low: int) -> range:
    """Return the values that are neither tiny nor large, beside a lower bound: a bound is often a size of the model."""
    return range(max(_SMALL, low + low // 2), max(_LARGE, 2 * low) + 1)


def _accidents(sizes: Mapping[str, range], point: Point) -> list[tuple[int, ...]]:
    """Return what is accidental about a point, and then about each size; less is better.

    These are whether a size is 0 or 1, how many others are equal to it, and whether it has an unusual value.
    """
    counts = Counter(point[name] for name in sizes)
    values = ((point[name], usual) for name, usual in sizes.items())
    each = [(value in {0, 1}, counts[value] - 1, value not in usual) for value, usual in values]
    return [tuple(map(sum, zip(*each, strict=True))), *each]


def _without_accidents(point: Point, sizes: Mapping[str, range], facts: Facts) -> Point:
    """Return the point with each size moved in turn, while all facts hold, to where least about it is accidental."""
    least = _accidents(sizes, point)
    for index, name in enumerate(sizes, 1):
        for near, changed in _moves(name, sizes[name].start + index - 1, point, facts):
            if not any(least[index]):
                break
            found = _accidents(sizes, near)
            if found[index] < least[index] and found[0] <= least[0] and facts.add_point(near, changed):
                point, least = near, found
    return point


def _moves(name: str, first: int, point: Point, facts: Facts) -> Iterator[tuple[Point, set[str]]]:
    """Yield the points with another value of a symbol that decides about the size, and the names that may change.

    Sizes that begin with values of their own, and that no fact relates, are moved once each.
    """
    for free in sorted(facts.known.solved.get(name, symbol(name)).symbols):
        bounds = facts.known.range_of(free)
        low = max(bounds.lower or 0, 0)
        span = min(first + _LARGE, first + _LARGE if bounds.upper is None else bounds.upper) - low + 1
        start = first - low if free == name else 0
        near = (moved(facts.known, point, free, low + (start + offset) % span) for offset in range(span))
        yield from (each for each in near if each is not None)


def grant(wish: Formula, facts: Facts) -> Point | None:
    """Return a point at which the facts and a wish hold, and learn the wish; None if no such point is found.

    >>> from shapeproof.solver.facts import Facts
    >>> from shapeproof.constraints.syntax.text import parse_formula
    >>> facts = Facts([parse_formula("n >= 0"), parse_formula("n <= 4")])
    >>> grant(parse_formula("n >= 4"), facts), grant(parse_formula("n <= 3"), facts)
    ({'n': 4}, None)
    """
    found = find(wish, facts)
    if not isinstance(found, dict):
        return None
    facts.learn(wish)
    return found
