"""Which guards are reasons, and which guards follow from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from shapeproof.constraints.formulas import Formula
from shapeproof.solver.budget import until_spent
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import redundant

_T = TypeVar("_T")


def without_needless(items: Sequence[_T], suffice: Callable[[list[_T], _T], bool]) -> list[_T]:
    """Return items without those that the others make needless, looked at in order.

    `suffice` gets the items that are left and the one that is left out.

    >>> without_needless([2, 3, 4, 6], lambda left, _: all(any(n % each == 0 for each in left) for n in (4, 6, 9)))
    [3, 4]
    """
    kept = list(items)
    for each in items:
        left = [other for other in kept if other is not each]
        if suffice(left, each):
            kept = left
    return kept


def reasons(formulas: Sequence[tuple[Formula, float]], facts: Facts) -> list[int]:
    """Return the indexes of an irredundant set of formulas that, with the facts, implies all the others.

    Each formula has a weight; lighter formulas are preferred. A formula is kept unless it is proved that the others
    imply it.

    >>> from shapeproof.constraints.syntax.text import parse_formula
    >>> from shapeproof.solver.facts import Facts
    >>> texts = ["n // 4 != 1", "n % 4 == 0", "4*(n // 4) >= 2", "n % 2 == 0"]
    >>> reasons([(parse_formula(text), 0) for text in texts], Facts([parse_formula("n >= 2")]))
    [0, 1]
    """
    kept = sorted(range(len(formulas)), key=lambda index: (formulas[index][1], index))
    with until_spent(facts.budget.for_a_task):
        kept = _not_implied_by_lighter(kept, formulas, facts)
        for index in reversed(list(kept)):
            rest = [each for each in kept if each != index]
            if redundant(formulas[index][0], facts.assuming(*(formulas[each][0] for each in rest))):
                kept = rest
    return sorted(kept)


def needed(formulas: Sequence[tuple[Formula, float]], facts: Facts) -> list[int]:
    """Return the indexes of formulas that imply all the others: where any formula fails, one of these is known to fail.

    Where a partial formula is undefined, it is not false. So a partial formula must not make the check that guards it
    look redundant: a guard that follows from a partial formula is kept, and so is one that only follows from formulas
    after the partial one. A formula's guard is looked for among the formulas before it.

    >>> from shapeproof.constraints.syntax.text import parse_formula
    >>> from shapeproof.solver.facts import Facts
    >>> texts = ["n != 3", "8 // (n - 3) >= 1", "n >= 4"]
    >>> formulas = [(parse_formula(text), 0) for text in texts]
    >>> reasons(formulas, Facts()), needed(formulas, Facts())
    ([1], [0, 1, 2])
    """
    total = [index for index, (formula, _) in enumerate(formulas) if formula.total]
    partial = [index for index, (formula, _) in enumerate(formulas) if not formula.total]
    kept = [total[index] for index in reasons([formulas[index] for index in total], facts)]
    with until_spent(facts.budget.for_a_task):
        here = facts.assuming(*(formulas[index][0] for index in total))
        partial = _not_implied_by_lighter(partial, formulas, here)
        for last in partial:
            before = facts.assuming(*(formulas[index][0] for index in kept if index < last))
            dropped = [index for index in total if index < last and index not in kept]
            kept += _not_implied_by_lighter(dropped, formulas, before)
    return sorted([*kept, *partial])


def _not_implied_by_lighter(order: Sequence[int], formulas: Sequence[tuple[Formula, float]], facts: Facts) -> list[int]:
    here = facts.fork()
    kept = []
    for index in order:
        formula = formulas[index][0]
        if not redundant(formula, here):
            kept.append(index)
            here.learn(formula)
    return kept
