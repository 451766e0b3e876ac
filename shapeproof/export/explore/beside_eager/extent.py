"""Run eager at other sizes before reporting that eager raises wherever a condition holds.

A check's requirement may matter only where other sizes send the model that way; the reported condition is then the
joint one. If eager accepts some of these sizes, the finding says so. The verdict stays the same.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.definedness import defined
from shapeproof.constraints.meaning.intervals import Interval
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.explore.beside_eager.replay import Eager
from shapeproof.export.explore.findings import Finding, Outcome
from shapeproof.export.explore.inferred.narrowing import sayable
from shapeproof.export.explore.points import Fitting
from shapeproof.export.limits import EXTENT_BOX, EXTENT_POINTS
from shapeproof.solver.answers.simplify import simplified
from shapeproof.solver.answers.witness import ascending
from shapeproof.solver.facts import Facts


@dataclass(frozen=True, slots=True)
class Extent:
    """Runs eager at sizes of a domain that are not much larger than the exploration's first sizes.

    `leaving` returns a formula for the sizes that take another path than a point on which the model raises, if known.
    """

    eager: Eager
    begun: Mapping[str, int]
    domain: Facts
    leaving: Callable[[dict[str, int]], Formula | None]

    def named(self, finding: Finding) -> Finding:
        """Return the finding; if eager raises, name a condition under which eager raised wherever it was run."""
        if finding.outcome is not Outcome.RAISES or self._raises_without(finding.requirement):
            return finding
        for whole in self._wholes(finding):
            joint = f.conjunction(*simplified([whole], self.domain))
            if joint is not finding.requirement and sayable(joint) and self._raises_without(joint):
                return self._first(replace(finding, joint=self._without_chance(joint)))
        return replace(finding, partly=True)

    def _without_chance(self, required: Formula) -> Formula:
        """Drop the alternatives at which eager raises, too: the failing path asked about them without need."""
        kept = list(required.args) if isinstance(required, f.Or) else [required]
        for part in list(kept):
            fewer = [each for each in kept if each is not part]
            if fewer and self._raises_without(f.disjunction(*fewer)):
                kept = fewer
        return f.disjunction(*kept)

    def _first(self, finding: Finding) -> Finding:
        """Return the finding with the smallest sizes that violate its requirement as witness, if eager raises there."""
        failing = self.domain.assuming(finding.requirement.negation)
        point = next(ascending(failing, sorted(self.eager.inputs.domain.symbols)), None)
        failure = None if point is None else self.eager.failure_at(point, finding.decision.where)
        return finding if failure is None else replace(finding, witness=point, text=failure)

    def _wholes(self, finding: Finding) -> Iterator[Formula]:
        """Yield the conditions that may replace a finding's requirement.

        First: the requirement holds, or the sizes lie outside the finding's region. Then: the sizes leave the failing
        path.
        """
        yield f.disjunction(finding.requirement, finding.served)
        left = None if finding.witness is None else self.leaving(finding.witness)
        if left is not None:
            yield left

    def _raises_without(self, required: Formula) -> bool:
        """True if eager was run at points where the requirement fails or is undefined, and raised at all of them."""
        failing = self.domain.assuming(f.negate(f.conjunction(defined(required), required)))
        points = itertools.islice(_points(self.eager.inputs, failing), EXTENT_POINTS)
        near = Fitting(self.eager.inputs, self.begun).among(points)
        first = next(near, None)
        run = () if first is None else itertools.chain([first], near)
        return first is not None and all(self.eager.failure(point) is not None for point in run)


def _points(inputs: Inputs, failing: Facts) -> Iterator[dict[str, int]]:
    """Yield points of the declared sizes: spread over a small box, or else the smallest."""
    names = sorted(inputs.domain.symbols)
    ranges = [_values(failing.range_of(name)) for name in names]
    if any(values is None for values in ranges) or math.prod(len(values or ()) for values in ranges) > EXTENT_BOX:
        return ({name: point[name] for name in names} for point in ascending(failing, names))
    box = (dict(zip(names, values, strict=True)) for values in itertools.product(*(values or () for values in ranges)))
    inside = [point for point in box if failing.contains(point)]
    return iter(inside[:: -(-len(inside) // EXTENT_POINTS) or 1])


def _values(interval: Interval) -> range | None:
    low, high = interval.lower, interval.upper
    return None if low is None or high is None else range(low, high + 1)
