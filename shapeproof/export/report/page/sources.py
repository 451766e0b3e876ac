"""The user's lines as a page shows them: each with the questions that it asks and the findings about it.

Law: a line is shown only as it was when the model was checked. If a file has changed since, the lines that the report
itself holds are all that is shown of it.
"""

from __future__ import annotations

import linecache
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, get_args

from markupsafe import Markup, escape

from shapeproof.constraints.records.decisions import Question, Settled, SourceLocation
from shapeproof.constraints.records.diagnostics import Diagnostic
from shapeproof.wording import file_text

if TYPE_CHECKING:
    from shapeproof.export.report.report import Report

_AROUND = 2
"""The lines shown above and below a line that something is said of."""
_ORDER: tuple[Settled, ...] = get_args(Settled)


@dataclass(slots=True)
class Line:
    """A line of a source: what it asks, and the numbers of the findings about it.

    `skipped` is the number of lines above it that are not shown.
    """

    number: int
    text: Markup
    questions: list[Question] = field(default_factory=list)
    declared: list[str] = field(default_factory=list)
    findings: list[int] = field(default_factory=list)
    skipped: int = 0

    @property
    def counts(self) -> list[tuple[Settled, int]]:
        """How many of its questions were settled in each way."""
        return counted(self.questions)


@dataclass(slots=True)
class Source:
    """The shown lines of a file."""

    name: str
    lines: list[Line]
    file: str


def counted(questions: Iterable[Question]) -> list[tuple[Settled, int]]:
    """Return how many questions were settled in each way, the worst first."""
    counts = Counter(each.settled for each in questions)
    return [(how, counts[how]) for how in _ORDER if how in counts]


def sources_of(report: Report) -> list[Source]:
    """Return the lines that something is said of with those around them, by file; those with findings come first."""
    said: dict[str, dict[int, Line]] = {}

    def line(where: SourceLocation) -> Line:
        found = said.setdefault(where.file, {}).setdefault(where.line, Line(where.line, Markup()))
        found.text = found.text or escape(where.text)
        return found

    for number, diagnostic in enumerate(report.diagnostics, 1):
        if (place := place_of(diagnostic)) is not None:
            line(place).findings.append(number)
    for question in report.questions:
        if question.where is not None:
            line(question.where).questions.append(question)
    for where, text in dict.fromkeys(_declared(report.diagnostics)):
        line(where).declared.append(text)
    return [Source(file_text(file), _with_context(file, lines), file) for file, lines in said.items()]


def place_of(diagnostic: Diagnostic) -> SourceLocation | None:
    """Return the line of a diagnostic, if it has one."""
    return SourceLocation(diagnostic.file, diagnostic.line) if diagnostic.file and diagnostic.line else None


def _declared(diagnostics: Sequence[Diagnostic]) -> Iterator[tuple[SourceLocation, str]]:
    notes = (note for diagnostic in diagnostics for note in diagnostic.notes if note.label == "declared")
    return ((note.where, note.text.rpartition("   at ")[0] or note.text) for note in notes if note.where is not None)


def _with_context(file: str, said: dict[int, Line]) -> list[Line]:
    """Return the lines to show, in order."""
    whole = linecache.getlines(file)
    unchanged = all(
        number <= len(whole) and (not line.text or escape(whole[number - 1].strip()) == line.text)
        for number, line in said.items()
    )
    highlighted = _highlighted(file, "".join(whole)) if whole and unchanged else []
    near = {at for number in said for at in range(number - _AROUND, number + _AROUND + 1)}
    shown = sorted(near & set(range(1, len(highlighted) + 1))) or sorted(said)
    lines = [said.get(number) or Line(number, Markup()) for number in shown]
    for line, before in zip(lines, [0, *shown], strict=False):
        line.skipped = line.number - before - 1
        if highlighted:
            line.text = highlighted[line.number - 1]
    return lines


def _highlighted(file: str, text: str) -> list[Markup]:
    """Return the lines of a source with their words in colour."""
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import PythonLexer, TOMLLexer

    lexer = (TOMLLexer if file.endswith(".toml") else PythonLexer)(stripnl=False)
    lines = highlight(text, lexer, HtmlFormatter(nowrap=True)).split("\n")
    return [Markup(line) for line in lines]  # noqa: S704 - Pygments escapes what it reads
