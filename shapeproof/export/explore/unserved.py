"""Find inputs given beside the example (AdditionalInputs) that the program is not known to serve.

Inference keeps all of these inputs in the domain. If the model needs a condition that one of them violates, that is an
error whatever other sizes are concerned; the smallest such input is run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from shapeproof.constraints.meaning.evaluate import holds_at
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.explore.beside_eager import replay
from shapeproof.export.explore.findings import Finding, Outcome


@dataclass(frozen=True, slots=True)
class Unserved:
    """The point of a given input, and what eager and the program do there."""

    point: dict[str, int]
    seen: replay.Replay


def unserved(
    mod: torch.nn.Module, forms: Sequence[replay.Form], inputs: Inputs, findings: Sequence[Finding]
) -> Unserved | None:
    """Return the smallest additional input in a part of the domain that findings call unserved."""
    sizes = [finding for finding in findings if finding.outcome is not Outcome.DATA]
    lost = [point for point in inputs.anchors[1:] if not all(_served(finding, point) for finding in sizes)]
    point = min(lost, key=lambda each: (max(each.values()), sum(each.values())), default=None)
    return None if point is None else Unserved(point, replay.compare(mod, forms, inputs, point))


def _served(finding: Finding, point: dict[str, int]) -> bool:
    return holds_at(finding.requirement, point) and holds_at(finding.served, point)
