"""For people: the reports of what did not pass, then a table of all models."""

from __future__ import annotations

import io
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from shapeproof.ci.jobs import Outcome
from shapeproof.ci.plain import plain, plain_line
from shapeproof.export.report.render import pointers

_WIDTH = 100


def render(outcomes: Sequence[Outcome], *, quiet: bool = False) -> str:
    """Return the reports of failed models, the table unless `quiet`, and the counts."""
    reports = [_report(outcome) for outcome in outcomes if not outcome.passed and not outcome.skipped]
    return "\n".join([*reports, *([] if quiet else [_table(outcomes)]), _counts(outcomes)])


def _report(outcome: Outcome) -> str:
    result = outcome.result
    return f"{_title(outcome)}\n{plain(result.text + pointers(result.diagnostics))}\n"


def _counts(outcomes: Sequence[Outcome]) -> str:
    passed, skipped = (sum(getattr(each, state) for each in outcomes) for state in ("passed", "skipped"))
    counts = f"{passed} passed, {len(outcomes) - passed - skipped} failed"
    return f"{counts}, {skipped} not run to the end" if skipped else counts


def _title(outcome: Outcome) -> str:
    check, verdict = outcome.check, outcome.result.status or "no verdict"
    place = plain_line(f"{check.name} ({check.file}:{check.line})")
    return f"== {place}: {verdict}, expected is {_expected(outcome)}"


def _table(outcomes: Sequence[Outcome]) -> str:
    table = Table(box=None, pad_edge=False, header_style="")
    for column in ("model", "verdict", "expected", "seconds"):
        table.add_column(column, justify="right" if column == "seconds" else "left", overflow="fold")
    for outcome in outcomes:
        spent = "unchanged" if outcome.unchanged else f"{outcome.result.seconds:.1f}"
        verdict = "not run" if outcome.skipped else outcome.result.status or "none"
        table.add_row(
            *map(Text, (plain_line(outcome.check.name), verdict, _expected(outcome), "" if outcome.skipped else spent))
        )
    written = io.StringIO()
    Console(file=written, width=_WIDTH, color_system=None).print(table)
    return "\n".join(line.rstrip() for line in written.getvalue().splitlines())


def _expected(outcome: Outcome) -> str:
    return f"{outcome.check.expected} or undecided" if outcome.check.accept_undecided else outcome.check.expected
