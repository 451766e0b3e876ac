"""Remarks about outcomes that did not pass, one for each place; annotations are made from them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from shapeproof.ci.jobs import Outcome
from shapeproof.constraints.records.diagnostics import Severity
from shapeproof.export.report.render import on_one_line

NO_VERDICT = "no-verdict"
NOT_RUN = "not-run"
UNEXPECTED = "unexpected"


@dataclass(frozen=True, slots=True)
class Remark:
    """A message about a line of a file."""

    id: str
    severity: Severity
    model: str
    message: str
    file: Path
    line: int


def remarks(outcome: Outcome) -> Iterator[Remark]:
    """Yield the remarks about an outcome. A line outside the project is replaced by the model's line in the spec."""
    check, result = outcome.check, outcome.result
    if outcome.passed:
        return
    for diagnostic in result.diagnostics:
        file, line = check.file, check.line
        if diagnostic.file and diagnostic.line and _in_project(diagnostic.file, check.job.root):
            file, line = Path(diagnostic.file), diagnostic.line
        notes = [f"{note.label}: {note.text}" for note in diagnostic.notes]
        notes += [f"weakest: {on_one_line(diagnostic.weakest)}"] if diagnostic.weakest else []
        notes += [f"help: {help_.text} ({help_.proof})" for help_ in diagnostic.help]
        text = "\n".join([diagnostic.message, *notes])
        yield Remark(diagnostic.id, diagnostic.severity, check.name, text, file, line)
    if outcome.skipped:
        yield Remark(NOT_RUN, "note", check.name, result.text, check.file, check.line)
    elif result.status is None:
        yield Remark(NO_VERDICT, "error", check.name, result.text, check.file, check.line)
    elif not result.diagnostics:
        text = f"expected is {check.expected}, but it is {result.status}"
        yield Remark(UNEXPECTED, "error", check.name, text, check.file, check.line)


def shown(path: Path, folder: Path | None = None) -> str:
    """Return the path relative to a folder (by default the working directory) if it lies below that folder."""
    absolute, base = path.resolve(), (folder or Path()).resolve()
    return absolute.relative_to(base).as_posix() if absolute.is_relative_to(base) else absolute.as_posix()


def in_repository(path: Path) -> str:
    """Return the path from the root of the repository, which on GitHub is the workspace."""
    return shown(path, Path(os.environ.get("GITHUB_WORKSPACE", "")))


def _in_project(file: str, root: str) -> bool:
    return Path(file).is_relative_to(root) and "site-packages" not in Path(file).parts
