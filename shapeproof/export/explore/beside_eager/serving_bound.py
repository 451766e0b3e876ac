"""Where eager begins to serve a size, if it raises at an end of the domain whatever the data, and the program with it.

No question was asked about the size, so eager is run: one size after the other is moved from the end to where the
exploration began, until eager serves; between the two values of that size lies the bound. What is required holds of
every input that was given. Nothing is ever proved of the program here.
"""

from __future__ import annotations

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import holds_at
from shapeproof.constraints.terms import symbol
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.explore.beside_eager.corners import raises_whatever_the_data
from shapeproof.export.explore.findings import Exploration


def serving_bound(mod: torch.nn.Module, inputs: Inputs, found: Exploration, point: dict[str, int]) -> Formula | None:
    """The bound of one size that leaves out a point at which both raise; None if there is none that keeps the rest."""
    here = dict(point)
    for name in sorted(here):
        moved = here | {name: found.begun[name]}
        if not raises_whatever_the_data(mod, inputs, found, moved):
            bound = _between(mod, inputs, found, here, name)
            return bound if all(holds_at(bound, anchor) for anchor in inputs.anchors) else None
        here = moved
    return None


def _between(mod: torch.nn.Module, inputs: Inputs, found: Exploration, point: dict[str, int], name: str) -> Formula:
    """The bound of one size between its value at a point, where eager raises, and where the exploration began."""
    raising, serving = point[name], found.begun[name]
    while abs(serving - raising) > 1:
        middle = (serving + raising) // 2
        if raises_whatever_the_data(mod, inputs, found, point | {name: middle}):
            raising = middle
        else:
            serving = middle
    return f.ge(symbol(name), serving) if raising < serving else f.le(symbol(name), serving)
