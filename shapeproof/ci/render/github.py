"""For GitHub Actions: workflow commands that annotate lines, then the text for people."""

from __future__ import annotations

from collections.abc import Sequence

from shapeproof.ci.jobs import Outcome
from shapeproof.ci.pages import pages
from shapeproof.ci.plain import no_command, plain, plain_line
from shapeproof.ci.render import text
from shapeproof.ci.render.findings import Remark, in_repository, remarks
from shapeproof.export.report.render import page_command


def render(outcomes: Sequence[Outcome]) -> str:
    """Return the outcomes as annotations followed by the text; commands inside the text are escaped."""
    return annotated([remark for outcome in outcomes for remark in remarks(outcome)], text.render(outcomes))


def annotated(found: Sequence[Remark], shown: str) -> str:
    """Return remarks as annotations, followed by a text whose commands are escaped."""
    return "\n".join([*map(_command, found), no_command(shown)])


def _command(remark: Remark) -> str:
    model, found = remark
    level = "notice" if found.severity == "note" else found.severity
    title = f"shapeproof: {model}: {found.id}"
    fields = {"file": in_repository(found.file or ""), "line": str(found.line), "title": title}
    shown_fields = ",".join(f"{name}={_escape(_escape_data(plain_line(value)))}" for name, value in fields.items())
    more = f"\n{page_command(found.id)}" if found.id in pages() else ""
    return f"::{level} {shown_fields}::{_escape_data(plain(found.message + more))}"


def _escape_data(value: str) -> str:
    return value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape(value: str) -> str:
    return value.replace(":", "%3A").replace(",", "%2C")
