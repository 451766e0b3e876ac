"""Findings with one reason speak with one voice (export/report/remedies.py)."""

from __future__ import annotations

from shapeproof.constraints.records.decisions import Decision, Kind
from shapeproof.constraints.syntax.text import parse_formula
from shapeproof.export.explore.findings import Finding, Outcome
from shapeproof.export.report.remedies import causes

LIMIT, BUDGET = "more than 32 traces would be needed", "the solver's budget ran out"


def found(outcome, text, reason):
    return Finding(outcome, Decision(parse_formula(text), Kind.ASSUMED, outcome=True), None, reason)


def told(*findings):
    return [[cause.finding, *cause.others] for cause in causes(findings, (), None, lambda finding: finding)]


def test_what_is_left_open_for_one_reason_is_told_once_for_the_same_sizes():
    """The fault: twice the lines, where the limit on traces left several questions about an image open."""
    first = found(Outcome.UNDECIDED, "h//4 == w//4", LIMIT)
    second = found(Outcome.UNDECIDED, "min(h, w) <= 4", LIMIT)
    batch = found(Outcome.UNDECIDED, "b != 1", LIMIT)
    other = found(Outcome.UNDECIDED, "h*w != 16", BUDGET)
    assert told(first, batch, second, other) == [[first, second], [batch], [other]]


def test_an_error_speaks_for_itself():
    errors = [found(Outcome.RAISES, "h >= 4", LIMIT), found(Outcome.RAISES, "h != 9", LIMIT)]
    open_ = found(Outcome.UNDECIDED, "h % 4 == 0", LIMIT)
    assert told(*errors, open_) == [[errors[0]], [errors[1]], [open_]]
