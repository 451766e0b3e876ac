"""For programs: all known data, as JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import shapeproof
from shapeproof.ci.jobs import Outcome
from shapeproof.ci.render.findings import shown

FORMAT = 1
"""The version of this form."""


def render(outcomes: Sequence[Outcome]) -> str:
    """Return the outcomes as one object."""
    passed = all(outcome.passed for outcome in outcomes)
    models = [_model(outcome) for outcome in outcomes]
    return json.dumps(
        {"format": FORMAT, "shapeproof": shapeproof.__version__, "passed": passed, "models": models}, indent=1
    )


def _model(outcome: Outcome) -> dict[str, Any]:
    check, result = outcome.check, outcome.result
    return {
        "name": check.name,
        "target": check.job.target,
        "file": shown(check.file),
        "line": check.line,
        "verdict": result.status,
        "expected": check.expected,
        "passed": outcome.passed,
        "unchanged": outcome.unchanged,
        "skipped": outcome.skipped,
        "seconds": round(result.seconds, 3),
        "inputs": result.contract.inputs,
        "domain": result.contract.domain,
        "regions": result.contract.regions,
        "notes": result.notes,
        "text": result.text,
        "diagnostics": [dataclasses.asdict(diagnostic) for diagnostic in result.diagnostics],
    }
