"""Remarks about outcomes that did not pass, one for each place; annotations are made from them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from shapeproof.ci.jobs import Outcome
from shapeproof.constraints.records.decisions import SourceLocation
from shapeproof.constraints.records.diagnostics import Diagnostic
from shapeproof.export.report.render import on_one_line

Remark: TypeAlias = tuple[str, Diagnostic]
"""The name of a model, and a message about it, at a line of a file."""


def remarks(outcome: Outcome) -> Iterator[Remark]:
    """Yield the remarks about an outcome. A line outside the project is replaced by the model's line in the spec."""
    check, result = outcome.check, outcome.result
    if outcome.passed:
        return
    here = SourceLocation(str(check.file), check.line)
    for diagnostic in result.diagnostics:
        inside = diagnostic.file and diagnostic.line and _in_project(diagnostic.file, check.job.root)
        notes = [f"{note.label}: {note.text}" for note in diagnostic.notes]
        notes += [f"weakest: {on_one_line(diagnostic.weakest)}"] if diagnostic.weakest else []
        notes += [f"help: {help_.text} ({help_.proof})" for help_ in diagnostic.help]
        text = "\n".join([diagnostic.message, *notes])
        yield check.name, replace(diagnostic, message=text).at(None if inside else here)
    if outcome.skipped:
        yield check.name, Diagnostic("not-run", result.text, "note").at(here)
    elif result.status is None:
        yield check.name, Diagnostic("no-verdict", result.text).at(here)
    elif not result.diagnostics:
        text = f"expected is {check.expected}, but it is {result.status}"
        yield check.name, Diagnostic("unexpected", text).at(here)


def shown(path: str | Path, folder: Path | None = None) -> str:
    """Return the path relative to a folder (by default the working directory) if it lies below that folder."""
    absolute, base = Path(path).resolve(), (folder or Path()).resolve()
    return absolute.relative_to(base).as_posix() if absolute.is_relative_to(base) else absolute.as_posix()


def in_repository(path: str | Path) -> str:
    """Return the path from the root of the repository, which on GitHub is the workspace."""
    return shown(path, Path(os.environ.get("GITHUB_WORKSPACE", "")))


def _in_project(file: str, root: str) -> bool:
    return Path(file).is_relative_to(root) and "site-packages" not in Path(file).parts
