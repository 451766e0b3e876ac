"""For people, and to pass on: all reports as one page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from shapeproof.ci.jobs import Outcome
from shapeproof.ci.plain import plain

if TYPE_CHECKING:
    from shapeproof.export.report.page.page import Section


def render(outcomes: Sequence[Outcome]) -> str:
    """Return the outcomes as a page, with a section for each model."""
    from shapeproof.export.report.page.page import page  # loads torch, and the templates

    passed = sum(outcome.passed for outcome in outcomes)
    return plain(page(f"{passed} of {len(outcomes)} models passed", [_section(outcome) for outcome in outcomes]))


def _section(outcome: Outcome) -> Section:
    from shapeproof.export.report.page.page import Section
    from shapeproof.export.report.report import Report
    from shapeproof.export.report.saved import fields_of

    check, result = outcome.check, outcome.result
    status = "not run" if outcome.skipped else result.status or "no verdict"
    report = Report(**fields_of(result.report, "the report of a worker")) if result.report else None
    expected = "" if outcome.passed or outcome.skipped else f"expected is {check.expected}"
    said = [] if report else [result.text]
    return Section(check.name, report, status, "\n".join(text for text in (expected, *said) if text))
