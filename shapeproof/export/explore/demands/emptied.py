"""Inferred sizes of which eager takes any number but 0: the lower bound rises to 1.

`x.max(0)` of nothing raises, and so does the program, though no question about the size was asked while it was traced.
A bound that is written is a claim, and refuted there (corners.py); one that is not may rise. Eager is run with one size
at 0 and all others as they were. Nothing is ever proved of the program here.
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
    """The lower bounds that are to rise, if eager serves the sizes with which the exploration began."""
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
    """Each size that may be given up where it is 0, and the point at which it alone is, if that is in the domain."""
    for name in sorted(inputs.inferred | inputs.liftable):
        point = begun | {name: 0}
        if begun[name] > 0 and domain.contains(point):
            yield name, point
