"""How far does a failure reach? Eager is run at other sizes, before it is said to raise wherever a condition holds.

What a check requires may matter only where other sizes send the model that way: the condition that is named is then the
joint one. Where eager takes some of these sizes, too, that is said. Nothing is proved here, and no verdict changes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.definedness import defined
from shapeproof.constraints.meaning.intervals import Interval
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.explore.beside_eager import replay
from shapeproof.export.explore.beside_eager.corners import fits
from shapeproof.export.explore.findings import Finding, Outcome
from shapeproof.export.explore.inferred.narrowing import sayable
from shapeproof.export.explore.limits import EXTENT_BOX, EXTENT_POINTS
from shapeproof.solver.answers.simplify import simplified
from shapeproof.solver.answers.witness import ascending
from shapeproof.solver.budget import Budget
from shapeproof.solver.facts import Facts


@dataclass(frozen=True, slots=True)
class Extent:
    """Runs eager at sizes of a domain that are not much larger than those at which an exploration began.

    `leaving` gives what holds of the sizes that do not go the way of a point on which the model raises, if it is known.
    """

    mod: torch.nn.Module
    inputs: Inputs
    begun: Mapping[str, int]
    domain: Facts
    budget: Budget
    leaving: Callable[[dict[str, int]], Formula | None]

    def named(self, finding: Finding) -> Finding:
        """The finding; one that eager raises names a condition under which eager raised wherever it was run."""
        if finding.outcome is not Outcome.RAISES or self._raises_without(finding.requirement):
            return finding
        for whole in self._wholes(finding):
            joint = f.conjunction(*simplified([whole], self.domain, self.budget))
            if joint is not finding.requirement and sayable(joint) and self._raises_without(joint):
                return replace(finding, joint=joint)
        return replace(finding, partly=True)

    def _wholes(self, finding: Finding) -> Iterator[Formula]:
        """What may have to hold together with a requirement, or instead of it: outside the region, or off the way."""
        yield f.disjunction(finding.requirement, finding.served)
        left = None if finding.witness is None else self.leaving(finding.witness)
        if left is not None:
            yield left

    def _raises_without(self, required: Formula) -> bool:
        """Whether eager raised wherever it was run where that does not hold, or has no value."""
        failing = self.domain.assuming(f.negate(f.conjunction(defined(required), required)))
        points = itertools.islice(_points(self.inputs, failing, self.budget), EXTENT_POINTS)
        near = (point for point in points if fits(self.inputs, self.begun, point))
        return all(replay.eager_failure(self.mod, self.inputs, point) is not None for point in near)


def _points(inputs: Inputs, failing: Facts, budget: Budget) -> Iterator[dict[str, int]]:
    """Points of the declared sizes: of a small box all over it, else the smallest."""
    names = sorted(inputs.domain.symbols)
    ranges = [_values(failing.range_of(name)) for name in names]
    if any(values is None for values in ranges) or math.prod(len(values or ()) for values in ranges) > EXTENT_BOX:
        return ({name: point[name] for name in names} for point in ascending(failing, names, budget))
    box = (dict(zip(names, values, strict=True)) for values in itertools.product(*(values or () for values in ranges)))
    inside = [point for point in box if failing.contains(point)]
    return iter(inside[:: -(-len(inside) // EXTENT_POINTS) or 1])


def _values(interval: Interval) -> range | None:
    low, high = interval.lower, interval.upper
    return None if low is None or high is None else range(low, high + 1)
