"""For people, and to pass on: all reports, or what models accepted and accept now, as one page."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from shapeproof.ci.jobs import Outcome
from shapeproof.ci.plain import plain
from shapeproof.constraints.records.diagnostics import Diagnostic
from shapeproof.contract import Contract
from shapeproof.wording import place_text

if TYPE_CHECKING:
    from shapeproof.export.report.page.page import Section

Contracts: TypeAlias = tuple[Contract | None, Contract | None]
"""What a model accepted, and what it accepts now; None if there is no program."""


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


def compared(
    found: Sequence[tuple[str, str, Diagnostic | None]], new: Sequence[str], contracts: Sequence[Contracts]
) -> str:
    """Return the comparison of locked models as a page: the name of each, what became of it, and the two contracts."""
    from shapeproof.export.report.page.page import Section, page

    sections = [
        Section(name, None, kind, _told(lost), tuple(_beside(*pair)))
        for (name, kind, lost), pair in zip(found, contracts or [(None, None)] * len(found), strict=True)
    ]
    sections += [Section(name, None, "not locked", "shapeproof lock adds it") for name in new]
    kept = sum(lost is None for _, _, lost in found)
    return plain(page(f"{kept} of {len(found)} models accept all that they did", sections))


def _told(lost: Diagnostic | None) -> str:
    if lost is None:
        return ""
    return f"{lost.message}\nat {place_text(lost.file, lost.line)}" if lost.file else lost.message


def _beside(before: Contract | None, after: Contract | None) -> Iterator[tuple[str, str]]:
    """Yield the lines of two contracts beside each other; those of one contract alone are beside no equal one."""
    if before is None and after is None:
        return
    old, new = ([] if each is None else str(each).splitlines() for each in (before, after))
    for _, *ends in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        yield from itertools.zip_longest(old[ends[0] : ends[1]], new[ends[2] : ends[3]], fillvalue="")
