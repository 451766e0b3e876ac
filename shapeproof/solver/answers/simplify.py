"""Formulas without what is redundant in them, where given facts hold. They say neither more nor less.

Each part is looked at where the rest leaves it open: an operand of `and` where the others hold, one of `or` where none
of them does. What always holds there, or never does, goes. Operands are read from the left as in Python, so behind one
that may raise only those before it count as the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from shapeproof.constraints.formulas import FALSE, TRUE, And, Formula, Or, conjunction, disjunction, eq
from shapeproof.constraints.meaning.definedness import defined
from shapeproof.constraints.terms import symbol
from shapeproof.constraints.work import OutOfWork, charge
from shapeproof.solver.answers.wording import reworded
from shapeproof.solver.budget import Budget, spending
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import redundant


def simplified(formulas: Sequence[Formula], facts: Facts, budget: Budget | None = None) -> list[Formula]:
    """What the formulas say together where the facts hold, in fewer words; the longest is cut down first.

    >>> from shapeproof.constraints.syntax.text import parse_formula
    >>> from shapeproof.solver.facts import Facts
    >>> texts = ["n != 3 or n <= 1", "n >= 12 or n <= 1 or n <= 8 or n == 3", "n >= -4"]
    >>> simplified([parse_formula(text) for text in texts], Facts([parse_formula("n >= 0")]))
    [n != 3, n >= 12 or n <= 8]
    """
    before = conjunction(*sorted(formulas, key=lambda formula: not formula.total))
    simpler = before
    try:
        with spending((budget or facts.budget).for_a_task):
            simpler = _within(before, facts, budget)
            while simpler is not before:  # what was looked at first may be redundant now that the rest is shorter
                before, simpler = simpler, _within(simpler, facts, budget)
    except OutOfWork:
        charge(0)  # nothing is left around either
    return list(simpler.args) if isinstance(simpler, And) else [] if simpler is TRUE else [simpler]


def in_few_words(required: Formula, known: Facts, budget: Budget) -> Formula:
    """The same requirement where the facts hold; a number that is left one value is said to have it."""
    facts = known.fork()
    facts.learn(required)
    ends = [(name, facts.range_of(name)) for name in sorted(required.symbols)]
    pinned = [eq(symbol(name), end.lower) for name, end in ends if end.lower is not None and end.lower == end.upper]
    return conjunction(*simplified([*pinned, required], known, budget))


def _within(formula: Formula, facts: Facts, budget: Budget | None) -> Formula:
    """The formula where the facts hold."""
    if redundant(formula, facts, budget):
        return TRUE
    if redundant(formula.negation, facts, budget):
        return FALSE
    match formula:
        case And(args):
            shorter = conjunction(*_each(args, facts, budget, opposite=False))
        case Or(args):
            shorter = disjunction(*_each(args, facts, budget, opposite=True))
        case _:
            shorter = formula
    return _reworded(shorter, facts, budget)


def _reworded(formula: Formula, facts: Facts, budget: Budget | None) -> Formula:
    """In fewer words, where these are proved to say the same."""
    shorter = reworded(formula, lambda term: facts.known.bounds(facts.reduce(term)))
    return shorter if shorter is formula or redundant(_same(formula, shorter), facts, budget) else formula


def _same(left: Formula, right: Formula) -> Formula:
    """That the two hold at the same points."""
    return disjunction(conjunction(left, right), conjunction(left.negation, right.negation))


def _each(args: Sequence[Formula], facts: Facts, budget: Budget | None, *, opposite: bool) -> list[Formula]:
    """The operands, each where the others, as they are by then, leave it open.

    One that may then raise stands behind what keeps it from that, so only those before it may be what it relies on.
    """
    left = list(args)
    for index in sorted(range(len(args)), key=lambda index: -len(str(args[index]))):
        harmless = len(list(takewhile(lambda arg: redundant(defined(arg), facts, budget), left)))
        for among in (range(harmless), range(min(harmless, index))):
            here = facts.fork()
            for at in among:
                if at != index:
                    here.learn(left[at].negation if opposite else left[at])
            simpler = _within(args[index], here, budget)
            if redundant(defined(simpler), facts, budget):
                break
        left[index] = simpler
    return left
