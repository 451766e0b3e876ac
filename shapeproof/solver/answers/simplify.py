"""Formulas without the parts that are redundant under given facts. The result is equivalent under the facts.

Each part is simplified under the assumption that the other parts leave it open: an operand of `and` where the others
hold, an operand of `or` where none of them holds. A part that always or never holds there is dropped. Operands are
evaluated from the left, as in Python: behind an operand that may raise, only earlier operands may be assumed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations, takewhile
from typing import Any, TypeVar

from shapeproof.constraints.atoms import Extremum, Where
from shapeproof.constraints.formulas import FALSE, TRUE, And, Formula, Or, conjunction, connected, disjunction, eq
from shapeproof.constraints.meaning.definedness import defined
from shapeproof.constraints.meaning.intervals import Interval
from shapeproof.constraints.nodes import postorder
from shapeproof.constraints.terms import Term, symbol
from shapeproof.solver.answers.wording import by_operand, by_size, reworded
from shapeproof.solver.budget import is_affordable, until_spent
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import redundant

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
    if key not in memo:
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
