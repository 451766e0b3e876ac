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
