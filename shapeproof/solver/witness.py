"""Points to show: any one at which a formula holds, the smallest, and a generic one to trace at.

Every point is evaluated before it is returned: all facts hold there, and the formula does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shapeproof.constraints.evaluate import evaluate, true_at
from shapeproof.constraints.formulas import TRUE, Formula, conjunction, disjunction, ge, le, ne
from shapeproof.constraints.terms import ZERO, maximum, symbol
from shapeproof.constraints.verdicts import Proved, Refuted, Undecided, Vacuous
from shapeproof.constraints.work import OutOfWork, charge
from shapeproof.solver.budget import spending
from shapeproof.solver.points import public
from shapeproof.solver.prove import decide

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from shapeproof.constraints.terms import Term
    from shapeproof.solver.budget import Budget
    from shapeproof.solver.facts import Facts
    from shapeproof.solver.points import Point

_SMALL, _LARGE = 5, 200


def find(formula: Formula, facts: Facts, budget: Budget | None = None) -> Point | Undecided | None:
    """A point at which the facts and the formula hold; None where it is proved that there is none.

    >>> from shapeproof.constraints.text import parse_formula
    >>> from shapeproof.solver.facts import Facts
    >>> find(parse_formula("n > 9"), Facts([parse_formula("n % 8 == 0"), parse_formula("0 <= n < 20")]))
    {'n': 16}
    """
    for point in facts.points(formula.symbols):
        if true_at(formula, point):
            return public(point)
    verdict = decide(formula.negation, facts, budget)
    match verdict:
        case Proved() | Vacuous():
            return None
        case Refuted(witness) if true_at(formula, witness):
            return dict(witness)
        case Undecided():
            return verdict
        case _:
            return Undecided("the formula may be undefined")


def smallest(
    formula: Formula, facts: Facts, order: Sequence[str] | None = None, budget: Budget | None = None
) -> Point | Undecided | None:
    """The smallest point at which the facts and the formula hold.

    Smaller means: first, the greatest absolute value of the symbols in `order` (all symbols, by name, if not given);
    then the sum of their absolute values; then the values one by one, the absolute value before the sign, 1 before -1.
    Where the budget runs out on the way, the best point found so far is returned.

    >>> from shapeproof.constraints.text import parse_formula
    >>> from shapeproof.solver.facts import Facts
    >>> smallest(parse_formula("a + b > 6"), Facts([parse_formula("a >= 0"), parse_formula("b % 3 == 0")]))
    {'a': 4, 'b': 3}
    """
    found = find(formula, facts, budget)
    if found is None or isinstance(found, Undecided):
        return found
    names = list(order) if order is not None else sorted(found)
    here = facts.fork()
    best = dict.fromkeys(names, 0) | found  # nothing is said of a symbol that the point leaves out
    names = [name for name in names if isinstance(best[name], int)]  # a double stays as it was found
    try:
        with spending((budget or facts.budget).for_a_task):
            here.learn(formula)
            for measure in _measures(names):
                best = _least(measure, here, best, budget)
    except OutOfWork:
        charge(0)  # nothing is left around either
    return best


def ascending(facts: Facts, order: Sequence[str], budget: Budget | None = None) -> Iterator[Point]:
    """The points of facts, the smallest first, no two alike in all of `order`; until no other is found.

    >>> from shapeproof.constraints.text import parse_formula
    >>> from shapeproof.solver.facts import Facts
    >>> list(ascending(Facts([parse_formula("n >= 1"), parse_formula("n*n < 10")]), ["n"]))
    [{'n': 1}, {'n': 2}, {'n': 3}]
    """
    left = facts.fork()
    while isinstance(point := smallest(TRUE, left, order, budget), dict):
        yield point
        left.learn(disjunction(*(ne(symbol(name), point[name]) for name in order)))


def _size(name: str) -> Term:
    return maximum(symbol(name), -symbol(name))


def _measures(names: Sequence[str]) -> Iterator[Term]:
    """What is made small, in this order; each of them is at least 0."""
    if names:
        yield maximum(*(_size(name) for name in names))
        yield sum((_size(name) for name in names), ZERO)
    for name in names:
        yield _size(name)
        yield _size(name) - symbol(name)  # 0 for a value of at least 0


def _least(measure: Term, facts: Facts, best: Point, budget: Budget | None) -> Point:
    """The point with the least measure; from here on, the facts say that the measure is no greater."""
    low, high = 0, evaluate(measure, best)
    while low < high:
        middle = (low + high) // 2
        point = find(le(measure, middle), facts, budget)
        if isinstance(point, Undecided):
            break
        if point is None:
            low = middle + 1
        else:
            best, high = point, evaluate(measure, point)
    facts.learn(le(measure, high))
    return best


def generic(
    facts: Facts, names: Sequence[str], avoid: Iterable[int] = (), budget: Budget | None = None
) -> Point | Undecided | None:
    """A point without accidents, to trace at: values in range, small, not 0 or 1, distinct, and none of those to avoid.

    Those are wishes, granted in that order as far as the facts allow.

    >>> from shapeproof.constraints.text import parse_formula
    >>> from shapeproof.solver.facts import Facts
    >>> generic(Facts([parse_formula("b >= 1"), parse_formula("h % 32 == 0")]), ["b", "h"])
    {'b': 5, 'h': 32}
    """
    point = find(TRUE, facts, budget)
    here = facts.fork()
    try:
        with spending((budget or facts.budget).for_a_task):
            for wish in _wishes(names, sorted(set(avoid) | {0, 1})) if isinstance(point, dict) else ():
                granted = find(wish, here, budget)
                if isinstance(granted, dict):
                    point = granted
                    here.learn(wish)
    except OutOfWork:
        charge(0)  # nothing is left around either
    return point


def _wishes(names: Sequence[str], avoid: Sequence[int]) -> Iterator[Formula]:
    """All wishes at once, which is granted most of the time; then one by one, those that matter most first."""
    sizes = [symbol(name) for name in names]
    small = [conjunction(ge(size, _SMALL), le(size, _LARGE)) for size in sizes]
    away = [conjunction(*(ne(size, value) for value in avoid)) for size in sizes]
    apart = [ne(left, right) for index, left in enumerate(sizes) for right in sizes[:index]]
    yield conjunction(*small, *away, *apart)
    yield from away
    yield from apart
    yield from small
