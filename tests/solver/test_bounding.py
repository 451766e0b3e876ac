from __future__ import annotations

from shapeproof.constraints.syntax.text import parse_formula, parse_term
from shapeproof.solver.facts import Facts
from shapeproof.solver.learned import bounding


def test_what_is_remembered_of_bounds_has_an_end_and_changes_no_answer(monkeypatch):
    """However many terms a process meets."""
    monkeypatch.setattr(bounding, "MEMORY", 8)
    facts = Facts([parse_formula("2 <= n <= 9")])
    for divisor in range(2, 60):
        term = parse_term(f"(n + 1)*({divisor}*n + 1)//{divisor + 1}")
        low, high = (point * (divisor * (point - 1) + 1) // (divisor + 1) for point in (3, 10))
        assert (facts.known.bounds(term).lower, facts.known.bounds(term).upper) == (low, high)
        assert len(bounding._COMPUTED) <= 8


def test_bounds_that_are_remembered_for_one_state_are_not_those_of_another():
    """Questions go back and forth between states: here, between more states than the memo has entries for a term."""
    term = parse_term("(n + 7)//8*m - (m + 3)//4")
    texts = [f"1 <= n <= {8 * most} and 4 <= m <= {4 * most}" for most in range(2, 14)]
    alone = []
    for text in texts:
        bounding._COMPUTED.clear()
        alone.append(Facts([parse_formula(text)]).known.bounds(term))
    assert len(set(alone)) == len(texts)
    for _ in range(2):
        assert [Facts([parse_formula(text)]).known.bounds(term) for text in texts] == alone
