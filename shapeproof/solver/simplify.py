"""Formulas without what is redundant in them, where given facts hold. They say neither more nor less.

Each part is looked at where the rest leaves it open: an operand of `and` where the others hold, one of `or` where none
of them does. What always holds there, or never does, goes. A formula that may raise is left as it is, since the order
of its operands matters.
"""

from __future__ import annotations

from collections.abc import Sequence

from shapeproof.constraints.formulas import FALSE, TRUE, And, Formula, Or, conjunction, disjunction
from shapeproof.constraints.verdicts import Proved, Vacuous
from shapeproof.solver.budget import Budget
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import decide


def simplified(formulas: Sequence[Formula], facts: Facts, budget: Budget | None = None) -> list[Formula]:
    """What the formulas say together where the facts hold, in fewer words; the longest is cut down first.

    >>> from shapeproof.constraints.text import parse_formula
    >>> from shapeproof.solver.facts import Facts
    >>> texts = ["n != 3 or n <= 1", "n >= 12 or n <= 1 or n <= 8 or n == 3", "n >= -4"]
    >>> simplified([parse_formula(text) for text in texts], Facts([parse_formula("n >= 0")]))
    [n != 3, n >= 12 or n <= 8]
    """
    whole = conjunction(*formulas)
    if not whole.total:
        return list(formulas)
    simpler = _within(whole, facts, budget)
    return list(simpler.args) if isinstance(simpler, And) else [] if simpler is TRUE else [simpler]


def _within(formula: Formula, facts: Facts, budget: Budget | None) -> Formula:
    """The formula where the facts hold."""
    if _always(formula, facts, budget):
        return TRUE
    if _always(formula.negation, facts, budget):
        return FALSE
    match formula:
        case And(args):
            return conjunction(*_each(args, facts, budget, opposite=False))
        case Or(args):
            return disjunction(*_each(args, facts, budget, opposite=True))
        case _:
            return formula


def _each(args: Sequence[Formula], facts: Facts, budget: Budget | None, *, opposite: bool) -> list[Formula]:
    """The operands, each where the others, as they are by then, leave it open."""
    left = list(args)
    for arg in sorted(args, key=lambda each: -len(str(each))):
        index = left.index(arg)
        here = facts.fork()
        for other in (*left[:index], *left[index + 1 :]):
            here.learn(other.negation if opposite else other)
        left[index] = _within(arg, here, budget)
    return left


def _always(formula: Formula, facts: Facts, budget: Budget | None) -> bool:
    return isinstance(decide(formula, facts, budget), Proved | Vacuous)
