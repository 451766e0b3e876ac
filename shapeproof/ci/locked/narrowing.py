"""Inputs that a model no longer accepts, compared with its lock: the smallest, the violated condition, its line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from shapeproof.ci.jobs import Outcome
from shapeproof.ci.locked.contracts import Lost, lost
from shapeproof.ci.locked.lock import Locked, locked
from shapeproof.constraints.meaning.evaluate import true_at
from shapeproof.constraints.records.verdicts import Undecided
from shapeproof.constraints.syntax.text import parse_formula
from shapeproof.wording import values_text

_ASKED_FOR = re.compile(r"asked for at (.+):(\d+)$")


@dataclass(frozen=True, slots=True)
class Narrowing:
    """A loss of accepted inputs, and the line that causes it."""

    message: str
    file: Path
    line: int
    kind: Literal["narrowed", "undecided", "no verdict"] = "narrowed"
    """"narrowed" if a loss is proved, "undecided" if it is not known that everything is still accepted."""
    sizes: Mapping[str, int] | None = None
    """The smallest input that is lost."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A locked model, and the inputs that it no longer accepts."""

    name: str
    narrowing: Narrowing | None


def narrowing(before: Locked, outcome: Outcome) -> Narrowing | None:
    """Return the loss of accepted inputs; None if it is proved that there is none."""
    check, after = outcome.check, locked(outcome)
    if before.contract is None:
        return None
    if after is None or after.contract is None:
        return _no_program(outcome)
    found = lost(before.contract, after.contract)
    if found is None:
        return None
    if isinstance(found, Undecided):
        text = f"it may refuse what it accepted: {found.reason}"
        return Narrowing(text, check.file, check.line, "undecided")
    return Narrowing(found.message, *_place(found, outcome), sizes=found.sizes)


def _no_program(outcome: Outcome) -> Narrowing:
    """The narrowing where there is no longer a program: no input is accepted."""
    check, result = outcome.check, outcome.result
    for diagnostic in result.diagnostics:
        if diagnostic.file and diagnostic.line and diagnostic.witness:
            sizes = values_text(diagnostic.witness)
            text = f"it is {result.status} now, at {sizes}: {diagnostic.message}"
            return Narrowing(text, Path(diagnostic.file), diagnostic.line, sizes=diagnostic.witness)
    if result.status is None:
        return Narrowing(
            f"it has no verdict now: {result.text.partition(chr(10))[0]}", check.file, check.line, "no verdict"
        )
    return Narrowing(f"it is {result.status} now", check.file, check.line)


def _place(found: Lost, outcome: Outcome) -> tuple[Path, int]:
    """The line of the spec that the input violates, else the user's line that asked for an inferred condition."""
    check = outcome.check
    for text, line in check.job.lines.items():
        if text not in check.job.dims and true_at(parse_formula(text), found.point) is False:
            return check.file, line
    for note in outcome.result.notes:
        asked = _ASKED_FOR.search(note)
        if asked and found.demand and found.demand in note:
            return Path(check.job.root, asked[1]), int(asked[2])
    return check.file, check.line
