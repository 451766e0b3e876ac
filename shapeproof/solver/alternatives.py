"""Case splits on disjunctions among the facts, and on the least value of an exponent.

`a % g == 0 or b % g == 0` implies that g divides a*b; the cheap steps see that only in each of the two cases. In the
same way, `x or y` holds if y holds where x fails, and `2**k == 1 or 2**k % 2 == 0` is seen for k = 0 and for k >= 1.
Law: the formula is proved only if all cases are proved.
"""

from __future__ import annotations

from itertools import islice, product
from math import prod
from typing import TYPE_CHECKING

from shapeproof.constraints.formulas import FALSE, TRUE, Or, eq, gt
from shapeproof.constraints.nodes import postorder
from shapeproof.constraints.terms import Apply, symbol
from shapeproof.solver.cases import proved_by_cases
from shapeproof.solver.learned.learning import absorb
from shapeproof.solver.learned.reduction import Reducer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shapeproof.constraints.formulas import Formula
    from shapeproof.solver.learned.knowledge import Knowledge

_MOST_CASES = 8
_MOST_SPLITS = 4
_FEW_REMAINDERS = 12


def proved_by_alternatives(formula: Formula, known: Knowledge) -> int | None:
    """Return the number of cases in which a reduced formula was proved, if it was proved in all; otherwise None.

    >>> from shapeproof.constraints.syntax.text import parse_formula
    >>> from shapeproof.solver.facts import Facts
    >>> known = Facts([parse_formula("n % 6 == 0 or n % 4 == 0")]).known
    >>> proved_by_alternatives(parse_formula("n % 2 == 0"), known)
    2
    """
    asked, given = _last_of(formula)
    splits: list[tuple[Formula, ...]] = []
    for split in islice(_splits(formula, known), _MOST_SPLITS):
        if prod(map(len, splits)) * len(split) <= _MOST_CASES:
            splits.append(split)
    if not splits and not given:
        return None
    cases = list(product(*splits))
    return len(cases) if all(_holds_in(asked, [*given, *case], known) for case in cases) else None


def _last_of(formula: Formula) -> tuple[Formula, list[Formula]]:
    """Return z and the negations of x and y for `x or y or z`: it is enough to show z where x and y fail."""
    match formula:
        case Or(args):
            return args[-1], [arg.negation for arg in args[:-1]]
        case _:
            return formula, []


def _splits(formula: Formula, known: Knowledge) -> Iterator[tuple[Formula, ...]]:
    """Case splits, from disjunctive facts and from exponents.

    Wherever the facts hold, at least one formula of each split holds.
    """
    for fact in known.mentioning.among(sorted(formula.symbols)):
        if isinstance(fact, Or):
            yield fact.args
    powers = [node for node in postorder(formula) if isinstance(node, Apply) and node.op == "pow"]
    for name in sorted(frozenset[str]().union(*(power.args[1].symbols for power in powers))):
        least = known.range_of(name).lower
        if least is not None:
            yield eq(symbol(name), least), gt(symbol(name), least)


def _holds_in(formula: Formula, case: list[Formula], known: Knowledge) -> bool:
    """True if the cheap steps prove the formula in this case."""
    finer = absorb(known, case)
    if finer.contradiction:
        return True
    reduced = Reducer(finer).reduce(formula)
    return reduced is TRUE or (reduced is not FALSE and proved_by_cases(reduced, finer, _FEW_REMAINDERS) is not None)
