"""For editors: a line for each remark, `file:line:column: level: message`, as compilers write them."""

from __future__ import annotations

from collections.abc import Sequence

from shapeproof.ci.jobs import Outcome
from shapeproof.ci.plain import plain_line
from shapeproof.ci.render.findings import Remark, remarks, shown


def render(outcomes: Sequence[Outcome]) -> str:
    """Return the remarks about the outcomes."""
    return lines([remark for outcome in outcomes for remark in remarks(outcome)])


def lines(found: Sequence[Remark]) -> str:
    """Return remarks, one a line."""
    return "\n".join(map(_line, found))


def _line(remark: Remark) -> str:
    """The remark without its notes; a diagnostic knows its line and no column."""
    model, found = remark
    message = found.message.partition("\n")[0]
    return plain_line(f"{shown(found.file or '')}:{found.line}:1: {found.severity}: {model}: {message} [{found.id}]")
