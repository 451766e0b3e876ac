"""Unsat cores: a few facts that contradict each other, all of them needed."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from shapeproof.constraints.formulas import Formula
from shapeproof.solver.budget import until_spent
from shapeproof.solver.facts import Facts


def clash(facts: Facts) -> tuple[Formula, ...]:
    """Return an unsat core of the facts, minimal if the budget suffices; empty if no contradiction is known.

    >>> from shapeproof.constraints.syntax.text import parse_formula
    >>> clash(Facts([parse_formula(text) for text in ("a >= 1", "b <= a", "b > 9", "a < 8")]))
    (b <= a, b >= 10, a <= 7)
    """
    if not facts.contradictory:
        return ()
    kept = list(dict.fromkeys(facts.formulas))
    with until_spent(facts.budget.without(*facts.search_cost)):
        for fewer in _ever_fewer(kept, facts):
            kept = fewer
    return tuple(kept)


def _ever_fewer(distinct: Sequence[Formula], facts: Facts) -> Iterator[list[Formula]]:
    """Contradictory subsets of the facts, each a subset of the one before."""
    shortest = bisect_left(range(len(distinct)), x=True, key=lambda length: _contradictory(distinct[:length], facts))
    kept = list(distinct[:shortest])
    yield kept
    for fact in kept[-2::-1]:  # the last fact of the prefix is needed
        rest = [each for each in kept if each is not fact]
        if _contradictory(rest, facts):
            kept = rest
            yield kept


def _contradictory(formulas: Sequence[Formula], facts: Facts) -> bool:
    return Facts(formulas, facts.budget, facts.ledger).contradictory
