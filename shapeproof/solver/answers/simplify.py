"""Formulas without the parts that are redundant under given facts. The result is equivalent under the facts.

Each part is simplified under the assumption that the other parts leave it open: an operand of `and` where the others
hold, an operand of `or` where none of them holds. A part that always or never holds there is dropped. Operands are
evaluated from the left, as in Python: behind an operand that may raise, only earlier operands may be assumed.

Also the simplest term proved equal to another wherever the facts hold: a constant, a line, or the reduced term.

A guess is fitted to a few points and used only if it is proved. If no guess is proved within the budget, the reduced
term is returned.

Also a formula that can be computed without short-circuiting.

A graph computes every operand. So a divisor that may be zero where an earlier operand has decided is replaced by 1
where it is zero; a separate conjunct states that the formula is defined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, permutations, takewhile
from typing import Any, TypeVar

from shapeproof.constraints.formulas import FALSE, TRUE, And, Formula, Or, conjunction, connected, disjunction, eq, ge
from shapeproof.constraints.meaning.evaluate import defined, demanded, value_at
from shapeproof.constraints.meaning.intervals import Interval
from shapeproof.constraints.nodes import Node, postorder
from shapeproof.constraints.reals import FromInt, RealCall, real_call
from shapeproof.constraints.terms import (
    Apply,
    Extremum,
    FloorDiv,
    Symbol,
    Term,
    Where,
    constant,
    floor_div,
    maximum,
    minimum,
    symbol,
    where,
)
from shapeproof.plain import Saving, saves_time
from shapeproof.solver.answers.wording import by_operand, by_size, reworded
from shapeproof.solver.budget import is_affordable, until_spent
from shapeproof.solver.facts import Facts
from shapeproof.solver.learned.knowledge import Knowledge
from shapeproof.solver.learned.reduction import Reducer, substitute
from shapeproof.solver.prove import implied, redundant

_Found = TypeVar("_Found")


def simplified(formulas: Sequence[Formula], facts: Facts) -> list[Formula]:
    """Return a shorter equivalent of the formulas where the facts hold; the longest parts are shortened first.

    >>> from shapeproof.constraints.syntax.text import parse_formula
    >>> from shapeproof.solver.facts import Facts
    >>> texts = ["n != 3 or n <= 1", "n >= 12 or n <= 1 or n <= 8 or n == 3", "n >= -4"]
    >>> simplified([parse_formula(text) for text in texts], Facts([parse_formula("n >= 0")]))
    [n != 3, n >= 12 or n <= 8]
    """
    return found_once(("simplified", tuple(formulas)), facts, lambda: _simplified(formulas, facts))


def found_once(question: tuple[Any, ...], facts: Facts, find: Callable[[], list[_Found]]) -> list[_Found]:
    """Return what is found for a question under these facts; it is looked for once while one ledger is kept."""
    key = (*question, facts.formulas, facts.budget)
    memo, complete = facts.ledger.memo, is_affordable(facts.budget.for_a_task)
    if key not in memo or not saves_time(Saving.ANSWERS):
        found = find()
        if not complete:  # a task around this one may have cut it short
            return found
        memo[key] = tuple(found)
    return list(memo[key])


def _simplified(formulas: Sequence[Formula], facts: Facts) -> list[Formula]:
    simpler = before = conjunction(*sorted(formulas, key=lambda formula: not formula.total))
    with until_spent(facts.budget.for_a_task):
        before = _resolved(simpler, facts)
        simpler = _within(before, facts)
        while simpler is not before:  # an early part may be redundant now that the rest is shorter
            before, simpler = simpler, _within(simpler, facts)
    return list(simpler.args) if isinstance(simpler, And) else [] if simpler is TRUE else [simpler]


def in_few_words(required: Formula, known: Facts) -> Formula:
    """Return the same requirement under the facts; a symbol with one remaining value gets the equality `n == value`."""
    facts = known.assuming(required)
    values = [(name, facts.range_of(name).single) for name in sorted(required.symbols)]
    pinned = [eq(symbol(name), value) for name, value in values if value is not None]
    return conjunction(*simplified([*pinned, required], known))


def _of_cases(formula: Formula) -> bool:
    """True if the formula has an atom that is one of its operands: facts often tell which."""
    return any(isinstance(node, Extremum | Where) for node in postorder(formula))


def _resolved(formula: Formula, facts: Facts) -> Formula:
    """Resolve the operands of `and`: `a or b` beside `not a or b` is `b`, and `b` makes `b or c` redundant.

    Parts may change places or go only if none of them raises where the facts hold.
    """
    if not isinstance(formula, And):
        return formula
    if not all(redundant(defined(part), facts) for each in formula.args for part in _parts(each)):
        return formula
    clauses: Sequence[Formula] = formula.args
    while (fewer := _resolution(clauses)) is not None:
        clauses = fewer
    return conjunction(*clauses)


def _resolution(clauses: Sequence[Formula]) -> list[Formula] | None:
    """Return the clauses with one of them left out or without one of its parts; None if none can be spared."""
    parts = {each: frozenset(_parts(each)) for each in clauses}
    for longer, other in permutations(clauses, 2):
        if parts[other] < parts[longer]:
            return [each for each in clauses if each is not longer]
        for part in _parts(longer):
            if part.negation in parts[other] and parts[other] - {part.negation} <= parts[longer] - {part}:
                shorter = disjunction(*(each for each in _parts(longer) if each is not part))
                return [shorter if each is longer else each for each in clauses]
    return None


def _parts(formula: Formula) -> tuple[Formula, ...]:
    return formula.args if isinstance(formula, Or) else (formula,)


def _within(formula: Formula, facts: Facts) -> Formula:
    if redundant(formula, facts):
        return TRUE
    if redundant(formula.negation, facts):
        return FALSE
    match formula:
        case And(args):
            shorter = conjunction(*_each(args, facts, opposite=False))
        case Or(args):
            shorter = disjunction(*_each(args, facts, opposite=True))
        case _:
            shorter = formula
    return _reworded(shorter, facts)


def _reworded(formula: Formula, facts: Facts) -> Formula:
    """Return a shorter wording, if it is proved equivalent."""

    def bounds(term: Term) -> Interval:
        return facts.known.bounds(facts.reduce(term))

    proposed = [reworded(formula, bounds), *by_size(formula, bounds)]
    if _of_cases(formula):
        reduced = facts.reduce(formula)
        proposed += [reduced, *by_operand(formula), *by_operand(reduced)]
    shorter = [each for each in proposed if _length(each) < _length(formula) and each.symbols <= formula.symbols]
    proved = (each for each in sorted(shorter, key=_length) if redundant(_same(formula, each), facts))
    return next(proved, formula)


def _length(formula: Formula) -> int:
    return len(str(formula))


def _same(left: Formula, right: Formula) -> Formula:
    """Return a formula that says that the two formulas are equivalent."""
    return disjunction(conjunction(left, right), conjunction(left.negation, right.negation))


def _each(args: Sequence[Formula], facts: Facts, *, opposite: bool) -> list[Formula]:
    """Simplify each operand where the others, as simplified so far, leave it open.

    An operand that could then raise relies on a check before it, so only earlier operands are assumed for it.
    """
    left = list(args)
    for index in sorted(range(len(args)), key=lambda index: -len(str(args[index]))):
        harmless = len(list(takewhile(lambda arg: redundant(defined(arg), facts), left)))
        for among in (range(harmless), range(min(harmless, index))):
            others = [left[at].negation if opposite else left[at] for at in among if at != index]
            here = facts.assuming(*connected(args[index].symbols, others, facts.formulas))
            simpler = _within(args[index], here)
            if redundant(defined(simpler), facts):
                break
        left[index] = simpler
    return left


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


def computed_whole(formula: Formula, known: Facts) -> Formula | None:
    """Return an equivalent formula in which no part divides by zero anywhere the facts hold.

    None if an `or` or a conditional protects a part that may raise, unless it is a division, root or logarithm of
    integers.

    >>> from shapeproof.constraints.syntax.text import parse_formula
    >>> from shapeproof.solver.facts import Facts
    >>> computed_whole(parse_formula("m == 0 or n // m >= 2"), Facts([parse_formula("m >= 0")]))
    m == 0 or n//max(1, m) >= 2
    """
    if formula.total:
        return formula
    nodes = [node for whole in (formula, defined(formula)) for node in postorder(whole)]
    partial = {node for node in nodes if not node.total and not implied(demanded(node), known)}
    if not partial:
        return formula
    if not all(map(_is_guardable, partial)):
        return None if any(isinstance(node, Or | Where) for node in nodes) else formula
    guarding = _Guarding(partial, known)
    return conjunction(guarding.reduce(defined(formula)), guarding.reduce(formula))


_LEAST = {"sqrt": 0, "log": 1, "log2": 1}
"""The least integer in the domain of each function."""


def _is_guardable(node: Node) -> bool:
    match node:
        case FloorDiv() | RealCall("inttruediv"):
            return True
        case _:
            return isinstance(node, RealCall) and node.op in _LEAST and isinstance(node.args[0], FromInt)


class _Guarding(Reducer):
    """Rewrites only the divisors and arguments of partial divisions and roots, so that these are defined."""

    def __init__(self, partial: set[Node], facts: Facts) -> None:
        super().__init__(Knowledge())
        self._partial = partial
        self._facts = facts

    def _rewrite(self, node: Node) -> Node:
        if node in self._partial:
            match node:
                case FloorDiv(numerator, divisor):
                    return floor_div(self._memo[numerator], self._guarded(divisor))
                case RealCall(op, (numerator, Term() as divisor)):
                    return real_call(op, self._memo[numerator], self._guarded(divisor))
                case RealCall(op, (FromInt(term),)) if op in _LEAST:
                    return real_call(op, maximum(self._memo[term], _LEAST[op]))
        return super()._rewrite(node)

    def _guarded(self, divisor: Term) -> Term:
        own: Term = self._memo[divisor]
        if implied(ge(divisor, 0), self._facts):
            return maximum(own, 1)
        return where(eq(own, 0), constant(1), own)
