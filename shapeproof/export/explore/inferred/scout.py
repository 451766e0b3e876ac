"""Find a simple domain that a model asks for, from one quick trace at the example made before all others.

If eager rejects generic sizes, inferred sizes are narrowed to the checks that eager makes at the example's sizes, for
example `h % 16 == 0` and `a == b`. The main program is then traced inside that domain, where few decisions are left
open. Requirements that torch does not check while tracing show in a run: the example's equal sizes are kept equal where
eager rejects unequal ones. The scout only chooses a domain; the exploration settles every claim afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import Point
from shapeproof.constraints.records.decisions import Decision, Kind
from shapeproof.constraints.records.domain import Role
from shapeproof.export.explore.beside_eager.replay import Eager
from shapeproof.export.explore.findings import Narrowing, Traced, narrowed
from shapeproof.export.explore.inferred.narrowing import asked_for, equal_in_example
from shapeproof.export.explore.points import Attempts
from shapeproof.export.limits import CHEAP_ELEMENTS, LARGE_PROGRAM, RUNS, TIED_SIZES
from shapeproof.plain import Saving, saves_time
from shapeproof.solver.answers.blame import without_needless
from shapeproof.solver.facts import Facts


@dataclass(frozen=True, slots=True)
class Scouted:
    """A trace at the example, the requirements found there, and a point of that domain which eager accepts."""

    at_example: Traced
    asked: list[Narrowing]
    tied: list[Narrowing]
    """Equalities of the example that no check requires, but a run does."""
    point: Point

    @property
    def domain(self) -> list[Narrowing]:
        """Return all requirements that inferred sizes are narrowed to."""
        return [*self.asked, *self.tied]


@dataclass(frozen=True, slots=True)
class Scout:
    """Looks for a simple domain.

    Attributes:
        eager: the model, as eager runs it on the declared inputs.
        attempts: makes the traces.
    """

    eager: Eager
    attempts: Attempts

    def look(self, domain: Facts, example: Point) -> Scouted | None:
        """Return the simple domain that the model asks for; None if eager accepts generic sizes or none is found."""
        if not self.eager.inputs.domain.of_role(Role.INFERRED) or self._runs_in(domain, CHEAP_ELEMENTS):
            return None
        traced = self.attempts.once(domain, example)
        if traced.program is None:
            return None
        asked = asked_for(traced.trial.decisions, self.eager.inputs)
        region = narrowed(domain, asked).assuming(*self._general(traced))
        tied, pinned = self._tied(region, example, self._pinned(traced))
        point = self.attempts.sizes.generic(narrowed(region, [*tied, *pinned]))
        return None if point is None else Scouted(traced, [*asked, *pinned], tied, point)

    def _pinned(self, traced: Traced) -> list[Formula]:
        """Return equalities that operators took at the example: torch may branch on one that eager requires."""
        found = (step.decision for step in traced.trial.size_steps)
        return [each.taken for each in found if each.pins and not each.of_the_model]

    def _general(self, traced: Traced) -> list[Formula]:
        """Return the decisions of a trace that generic inputs take too, since they are no accidents of its sizes."""
        steps = traced.trial.size_steps
        return [step.decision.taken for step in steps if not step.overrules and not step.decision.pins]

    def _tied(
        self, region: Facts, example: Point, pinned: Sequence[Formula]
    ) -> tuple[list[Narrowing], list[Narrowing]]:
        """Return the equalities of the example that eager needs to accept a generic point; none if all do not suffice.

        Equalities between sizes are tried first, then also equalities with constants.
        """
        if self._runs_in(region):
            return [], []
        # of a size with a single value, it is an accident if another size of the example equals it
        alone = {name for name, bounds in region.ranges.items() if bounds.single is not None}
        open_, every = (
            [each for each in equal_in_example(self.eager.inputs, example, fixed) if self._is_open(each, region)]
            for fixed in (alone, ())
        )
        constant = [each for each in dict.fromkeys(pinned) if self._is_open(each, region)]
        needed = next((each for each in (open_, [*open_, *constant], every) if self._serves(region, each)), [])
        needed = without_needless(needed, lambda left, each: self._runs_in(region.assuming(*left, each.negation)))
        tied, fixed = ([each for each in needed if (each in constant) is chosen] for chosen in (False, True))
        return self._asked(tied), self._asked(fixed)

    def _asked(self, needed: Sequence[Formula]) -> list[Narrowing]:
        decisions = [Decision(each, Kind.ASSERTED, outcome=True) for each in needed]
        return asked_for(decisions, self.eager.inputs)

    def _is_open(self, formula: Formula, region: Facts) -> bool:
        return not region.assuming(formula.negation).contradictory

    def _serves(self, region: Facts, equal: Sequence[Formula]) -> bool:
        return len(equal) <= TIED_SIZES and self._runs_in(region.assuming(*equal))

    def _runs_in(self, region: Facts, elements: int | None = None) -> bool:
        """True if eager accepts a generic point; a point with more than `elements` elements is not run."""
        point = self.attempts.sizes.generic(region)
        if point is None or (elements is not None and self.eager.inputs.elements(point) > elements):
            return False
        return self.eager.failure(point) is None


@dataclass(slots=True)
class Looks:
    """Counts the looks into how much of an inferred domain can be kept; a large model gets exactly one."""

    eager: Eager
    taken: int = 0

    def are_over(self, nodes: int) -> bool:
        """True if a program with this many nodes has used up its looks."""
        return saves_time(Saving.LOOKS) and self.taken >= self._affordable(nodes)

    def are_in_vain(self, nodes: int, points: Sequence[Point | None]) -> bool:
        """True if eager rejects all of these points, where a run is worth making to save a trace."""
        tried = [point for point in points if point is not None]
        worth = bool(tried) and self.are_few(nodes)
        return worth and all(self.eager.failure(point) is not None for point in tried)

    def are_few(self, nodes: int) -> bool:
        """True if a program with this many nodes is too large to look wherever a look may help."""
        return saves_time(Saving.LOOKS) and self._affordable(nodes) < RUNS

    def _affordable(self, nodes: int) -> int:
        return min(RUNS, max(1, LARGE_PROGRAM // nodes))
