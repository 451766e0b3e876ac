"""Writes the proved repairs of refuted models into their specs.

Law: what is written was proved to settle its finding; a finding without a proved repair changes nothing.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from shapeproof.ci.jobs import Outcome
from shapeproof.ci.render.findings import shown
from shapeproof.ci.specs.spec import text_of
from shapeproof.files import write_whole, writing


def repaired(outcomes: Sequence[Outcome]) -> list[str]:
    """Write the repairs that are in the words of a spec; return the change of each spec as a unified diff.

    Raises:
        UsageError: a spec cannot be read or written.
    """
    found = groupby(outcomes, lambda outcome: outcome.check.file)
    return [diff for path, group in found if (diff := _repaired(path, list(map(_helps, group))))]


def _helps(outcome: Outcome) -> list[str]:
    """The proved declarations for the spec of a model that did not pass."""
    job = outcome.check.job
    if outcome.passed or job.operator or job.inputs is None:
        return []
    return [help_.text for found in outcome.result.diagnostics for help_ in found.help if help_.requires]


def _repaired(path: Path, helps: Sequence[Sequence[str]]) -> str:
    if not any(helps):
        return ""
    from shapeproof.ci.specs.tables import amended

    before = text_of(path)
    after = amended(before, helps)
    with writing(path):
        write_whole(path, after)
    name, lines = shown(path), (before.splitlines(), after.splitlines())
    return "\n".join(difflib.unified_diff(*lines, name, name, lineterm=""))
