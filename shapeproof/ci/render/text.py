"""For people: the reports of what did not pass, then a table of all models."""

from __future__ import annotations

import io
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from shapeproof.ci.jobs import Outcome
from shapeproof.ci.plain import plain, plain_line

_WIDTH = 100


def render(outcomes: Sequence[Outcome]) -> str:
    """The reports and the table."""
    reports = [f"{_title(outcome)}\n{plain(outcome.result.text)}\n" for outcome in outcomes if not outcome.passed]
    failed = sum(not outcome.passed for outcome in outcomes)
    return "\n".join([*reports, _table(outcomes), f"{len(outcomes) - failed} passed, {failed} failed"])


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
        table.add_row(
            *map(Text, (plain_line(outcome.check.name), outcome.result.status or "none", _expected(outcome), spent))
        )
    written = io.StringIO()
    Console(file=written, width=_WIDTH, color_system=None).print(table)
    return "\n".join(line.rstrip() for line in written.getvalue().splitlines())


def _expected(outcome: Outcome) -> str:
    return f"{outcome.check.expected} or undecided" if outcome.check.accept_undecided else outcome.check.expected
