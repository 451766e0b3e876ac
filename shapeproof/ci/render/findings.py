"""What there is to say about outcomes that did not pass, one remark for each place: what annotations are made of."""

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
    """Something to say about a line of a file."""

    id: str
    severity: Severity
    model: str
    message: str
    file: Path
    line: int


def remarks(outcome: Outcome) -> Iterator[Remark]:
    """What to say about an outcome. A line that is not in the project is said of the model's line in the spec."""
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
    """The path as seen from a folder (by default the working directory), where it is below that."""
    absolute, base = path.resolve(), (folder or Path()).resolve()
    return absolute.relative_to(base).as_posix() if absolute.is_relative_to(base) else absolute.as_posix()


def in_repository(path: Path) -> str:
    """The path as who annotates wants it: from the root of the repository, which on GitHub is the workspace."""
    return shown(path, Path(os.environ.get("GITHUB_WORKSPACE", "")))


def _in_project(file: str, root: str) -> bool:
    return Path(file).is_relative_to(root) and "site-packages" not in Path(file).parts
