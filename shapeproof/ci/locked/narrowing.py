"""Inputs that a model no longer accepts, compared with its lock: the smallest, the violated condition, its line."""

from __future__ import annotations

import re
from pathlib import Path

from shapeproof.ci.jobs import Check, Outcome
from shapeproof.ci.locked.contracts import Lost, lost
from shapeproof.ci.locked.lock import Locked, locked
from shapeproof.constraints.meaning.evaluate import true_at
from shapeproof.constraints.records.decisions import SourceLocation
from shapeproof.constraints.records.diagnostics import Diagnostic
from shapeproof.constraints.records.verdicts import Undecided
from shapeproof.constraints.syntax.text import parse_formula
from shapeproof.wording import values_text

_ASKED_FOR = re.compile(r"asked for at (.+):(\d+)$")


def narrowing(before: Locked, outcome: Outcome) -> Diagnostic | None:
    """Return the loss of accepted inputs, with the line that causes it; None if it is proved that there is none.

    Its id is "narrowed" if a loss is proved, "undecided" if it is not known that everything is still accepted, and
    "no-verdict". The witness is the smallest input that is lost.
    """
    after = locked(outcome)
    if before.contract is None:
        return None
    if after is None or after.contract is None:
        return _no_program(outcome)
    found = lost(before.contract, after.contract)
    if found is None:
        return None
    if isinstance(found, Undecided):
        lost_now = Diagnostic("undecided", f"it may refuse what it accepted: {found.reason}")
        return lost_now.at(_line_of(outcome.check))
    return Diagnostic("narrowed", found.message, witness=found.sizes).at(_place(found, outcome))


def _no_program(outcome: Outcome) -> Diagnostic:
    """The narrowing where there is no longer a program: no input is accepted."""
    result = outcome.result
    for diagnostic in result.diagnostics:
        if diagnostic.file and diagnostic.line and diagnostic.witness:
            sizes = values_text(diagnostic.witness)
            text = f"it is {result.status} now, at {sizes}: {diagnostic.message}"
            where = SourceLocation(diagnostic.file, diagnostic.line)
            return Diagnostic("narrowed", text, witness=diagnostic.witness).at(where)
    if result.status is None:
        lost_now = Diagnostic("no-verdict", f"it has no verdict now: {result.text.partition(chr(10))[0]}")
    else:
        lost_now = Diagnostic("narrowed", f"it is {result.status} now")
    return lost_now.at(_line_of(outcome.check))


def _line_of(check: Check) -> SourceLocation:
    return SourceLocation(str(check.file), check.line)


def _place(found: Lost, outcome: Outcome) -> SourceLocation:
    """The line of the spec that the input violates, else the user's line that asked for an inferred condition."""
    check = outcome.check
    for text, line in check.job.lines.items():
        if text not in check.job.dims and true_at(parse_formula(text), found.point) is False:
            return SourceLocation(str(check.file), line)
    for note in outcome.result.notes:
        asked = _ASKED_FOR.search(note)
        if asked and found.demand and found.demand in note:
            return SourceLocation(str(Path(check.job.root, asked[1])), int(asked[2]))
    return _line_of(check)
