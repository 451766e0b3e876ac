"""Find the bound at which eager begins to serve a size, where eager and program both raise at an end of the domain.

They raise for all data. The trace asked no question about the size, so eager is run. One size after the other moves
from the end to its value at the start of the exploration, until eager serves; a binary search between the two values
finds the bound. The bound holds for every given input.
"""

from __future__ import annotations

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import holds_at
from shapeproof.constraints.terms import symbol
from shapeproof.export.explore.beside_eager.corners import raises_whatever_the_data
from shapeproof.export.explore.beside_eager.replay import Eager
from shapeproof.export.explore.findings import Exploration


def serving_bound(eager: Eager, found: Exploration, point: dict[str, int]) -> Formula | None:
    """Return a bound of one size that excludes a point where both raise; None if it excludes a given input."""
    here = dict(point)
    for name in sorted(here):
        moved = here | {name: found.start[name]}
        if not raises_whatever_the_data(eager, found, moved):
            bound = _between(eager, found, here, name)
            return bound if all(holds_at(bound, anchor) for anchor in eager.inputs.anchors) else None
        here = moved
    return None


def _between(eager: Eager, found: Exploration, point: dict[str, int], name: str) -> Formula:
    """Return the bound of one size between a point where eager raises and the start of the exploration."""
    raising, serving = point[name], found.start[name]
    while abs(serving - raising) > 1:
        middle = (serving + raising) // 2
        if raises_whatever_the_data(eager, found, point | {name: middle}):
            raising = middle
        else:
            serving = middle
    return f.ge(symbol(name), serving) if raising < serving else f.le(symbol(name), serving)
