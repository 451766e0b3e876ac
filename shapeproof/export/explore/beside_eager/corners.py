"""Run the program beside eager at the ends of the domain, before the program is called proved.

Tracing cannot see everything (for example code that asks whether torch is tracing); a run shows such a difference. The
points are the given inputs, the point of each trace that the program serves, the corners of the domain that fit into
memory, one point of each slice of the domain without a trace, and, if the model reads the layout of a tensor, points at
which sizes of that tensor are 0 and 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import Point, holds_at
from shapeproof.constraints.records.domain import Role
from shapeproof.constraints.terms import symbol
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.explore.beside_eager import replay, runner
from shapeproof.export.explore.findings import Exploration
from shapeproof.export.explore.points import replay_points
from shapeproof.export.shim.trees import map_tensors
from shapeproof.solver.facts import Facts

SEEDS = (None, 1, 2, 3)
"""The data seeds at which eager must raise to be said to raise for all data; None repeats the example's data."""


def unchanged(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor itself."""
    return tensor


FILLS: tuple[Callable[[torch.Tensor], torch.Tensor], ...] = (
    torch.zeros_like,
    torch.ones_like,
    lambda tensor: torch.full_like(tensor, -1),
)
"""Data of one number: random floats nearly always have a positive number, and are no positive definite matrix."""
DATA = (unchanged, *FILLS)
"""The data as they are, and these."""


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A point where the program differs from eager, or where both raise and eager should not."""

    point: Point
    result: runner.Replay
    bound: Formula | None = None
    """A bound of a size that excludes sizes at which both raise."""


def disagreement(eager: replay.Eager, found: Exploration, domain: Facts) -> Disagreement | None:
    """Return the first point of a domain at which the program differs from eager.

    The two have already been compared at the start of the exploration.
    """
    if found.disagreement is not None:
        return Disagreement(found.start, found.disagreement)
    run = [found.start]
    raising: list[Point] = []
    served = False
    for point in replay_points(eager.inputs, found, domain, run):
        if point not in run and domain.contains(point):
            run.append(point)
    once = eager.point_with_data(run)
    for point in run if once is run[0] else run[1:]:
        result = eager.compare(found.forms, point, by_values=point is once)
        if not result.agrees:
            return Disagreement(point, result)
        served |= result.relation is runner.Relation.SAME
        if result.relation is runner.Relation.BOTH_RAISE:
            raising.append(point)
    served = served or not raising or eager.failure(found.start, SEEDS[0]) is None
    for point in claimed(raising, eager.inputs, found, domain) if served else ():
        result = eager.compare(found.forms, point)
        if result.relation is runner.Relation.BOTH_RAISE and raises_whatever_the_data(eager, found, point):
            return Disagreement(point, result)
    return None


def claimed(raising: Sequence[Point], inputs: Inputs, found: Exploration, domain: Facts) -> Iterator[Point]:
    """Yield the points where both raise, with inferred sizes reset, so that only claimed sizes can be the cause."""
    kept = {name: found.start[name] for name in inputs.domain.of_role(Role.INFERRED | Role.LIFTABLE)}
    for point in raising:
        reset = point | kept
        if reset != found.start and domain.contains(reset):
            yield reset


def raises_whatever_the_data(eager: replay.Eager, found: Exploration, point: Mapping[str, int]) -> bool:
    """True if eager raises at a point for all data: the input is empty, or all floats and every tried filling fails.

    The error on random floats must be torch's own, not an error about the data (LinAlgError) or one of the model.
    """
    if found.main.trial.learned.checks:
        return False
    tensors = [leaf.example for leaf in eager.inputs.leaves if leaf.is_tensor]
    empty = eager.inputs.elements(point) == 0
    if not empty and not all(each.dtype.is_floating_point for each in tensors):
        return False
    failures = [eager.failure(point, seed) for seed in (SEEDS[:1] if empty else SEEDS)]
    if not all(said is not None and (empty or said.startswith(("RuntimeError", "IndexError"))) for said in failures):
        return False
    filled = (map_tensors(eager.inputs.at(point, filled=True), fill) for fill in FILLS)
    return empty or all(eager.error_on(*inputs) is not None for inputs in filled)


def serving_bound(eager: replay.Eager, found: Exploration, point: Point) -> Formula | None:
    """Return a bound of one size that excludes a point where both raise; None if it excludes a given input.

    They raise for all data, and the trace asked no question about the size, so eager is run. One size after the other
    moves from the point to its value at the start of the exploration, until eager serves; a binary search between the
    two values finds the bound.
    """
    here = dict(point)
    for name in sorted(here):
        moved = here | {name: found.start[name]}
        if not raises_whatever_the_data(eager, found, moved):
            bound = _between(eager, found, here, name)
            return bound if all(holds_at(bound, anchor) for anchor in eager.inputs.anchors) else None
        here = moved
    return None


def _between(eager: replay.Eager, found: Exploration, point: Point, name: str) -> Formula:
    """Return the bound of one size between a point where eager raises and the start of the exploration."""
    raising, serving = point[name], found.start[name]
    while abs(serving - raising) > 1:
        middle = (serving + raising) // 2
        if raises_whatever_the_data(eager, found, point | {name: middle}):
            raising = middle
        else:
            serving = middle
    return f.ge(symbol(name), serving) if raising < serving else f.le(symbol(name), serving)
