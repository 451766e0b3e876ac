"""Raise the lower bound of an inferred size from 0 to 1 where eager rejects exactly 0.

`x.max(0)` of an empty tensor raises in eager and in the program, although the trace asked no question about the size. A
written bound is a claim, and corners.py refutes it; an unwritten bound may rise. Eager is run with one size at 0 and
all others unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.records.decisions import Decision, Kind
from shapeproof.constraints.terms import symbol
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.explore.beside_eager import replay
from shapeproof.export.explore.beside_eager.corners import raises_whatever_the_data
from shapeproof.export.explore.findings import Exploration, Narrowing, narrowed
from shapeproof.export.explore.inferred.narrowing import conceded
from shapeproof.solver.budget import Budget
from shapeproof.solver.facts import Facts


def refused_where_none(
    mod: torch.nn.Module, inputs: Inputs, found: Exploration, domain: Facts, budget: Budget
) -> list[Narrowing]:
    """Return the lower bounds to raise, if eager serves the exploration's first sizes."""
    left = narrowed(domain, found.narrowings)
    refused = [
        name
        for name, point in _emptied(inputs, found.begun, left)
        if raises_whatever_the_data(mod, inputs, found, point)
    ]
    if not refused or replay.eager_failure(mod, inputs, found.begun, None) is not None:
        return []
    decisions = (Decision(f.ge(symbol(name), 1), Kind.ASSERTED, outcome=True) for name in refused)
    raised = (conceded(decision, found, inputs, budget) for decision in decisions)
    return [narrowing for narrowing in raised if narrowing is not None]


def _emptied(inputs: Inputs, begun: dict[str, int], domain: Facts) -> Iterator[tuple[str, dict[str, int]]]:
    """Yield each inferred or liftable size that may be 0, and the point at which that size alone is 0."""
    for name in sorted(inputs.inferred | inputs.liftable):
        point = begun | {name: 0}
        if begun[name] > 0 and domain.contains(point):
            yield name, point
