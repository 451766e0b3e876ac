"""Splits a formula into clauses: disjunctions of comparisons, which hold together where the formula holds.

Torch's loader brings each assertion into this form. Where a clause of a larger formula always holds, the loader fails;
here such clauses are dropped.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula

MOST = 64
"""A formula with more clauses stays whole."""


def clauses(formula: Formula) -> Sequence[Formula]:
    """Return the clauses of a total formula; any other formula, and one with too many clauses, stays whole.

    >>> from shapeproof.constraints.terms import symbol
    >>> n, m = symbol("n"), symbol("m")
    >>> clauses(f.disjunction(f.eq(n, 0), f.conjunction(f.ne(n, 0), f.ge(m, 2))))
    (m >= 2 or n == 0,)
    """
    found = _clauses(formula) if formula.total else None
    return (formula,) if found is None else found


def _clauses(formula: Formula) -> tuple[Formula, ...] | None:
    match formula:
        case f.And(args) | f.Or(args):
            parts = [_clauses(each) for each in args]
            if any(part is None for part in parts):
                return None
            every = [part for part in parts if part is not None]
            if isinstance(formula, f.And):
                return _shortest(itertools.chain.from_iterable(every))
            return _joined(every)
        case _:
            return (formula,)


def _joined(parts: Sequence[Sequence[Formula]]) -> tuple[Formula, ...] | None:
    """Return the clauses of a disjunction: one of each part, in every combination."""
    found: tuple[Formula, ...] = (f.FALSE,)
    for part in parts:
        found = _shortest(f.disjunction(*pair) for pair in itertools.product(found, part))
        if len(found) > MOST:
            return None
    return found


def _shortest(every: Iterable[Formula]) -> tuple[Formula, ...]:
    """Return the clauses that no other clause implies by having fewer operands."""
    distinct = [each for each in dict.fromkeys(every) if each is not f.TRUE]
    operands = {each: frozenset(each.args if isinstance(each, f.Or) else (each,)) for each in distinct}
    return tuple(each for each in distinct if not any(operands[other] < operands[each] for other in distinct))
