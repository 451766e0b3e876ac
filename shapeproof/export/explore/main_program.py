"""Choose the main program: one that serves the example, traced at a point as generic as possible.

Every other trace is compared with the main program. If inferred sizes are narrowed before anything is explored, because
the model asks for a simple domain, that is kept here.
"""

from __future__ import annotations

from collections.abc import Mapping

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import Point
from shapeproof.constraints.records.decisions import Kind
from shapeproof.constraints.records.domain import Role
from shapeproof.constraints.terms import symbol
from shapeproof.export.explore.attempts import Attempts, as_trace_of
from shapeproof.export.explore.findings import Impossible, Narrowing, Traced, narrowed
from shapeproof.export.explore.inferred.narrowing import Scout
from shapeproof.export.explore.judge import Judge
from shapeproof.export.limits import RETRIES
from shapeproof.export.trace.trial import Step
from shapeproof.solver.facts import Facts


class MainProgram:
    """Finds the main program of a domain; without a scout, inferred sizes are not narrowed beforehand."""

    def __init__(self, attempts: Attempts, judge: Judge, scout: Scout | None) -> None:
        self.adopted: list[Narrowing] = []
        """What inferred sizes were narrowed to before anything was explored."""
        self.settled_for = False
        """True if equalities of the example are among that, which no check asks for, but a run does."""
        self._attempts = attempts
        self._judge = judge
        self._scout = scout
        self._oblivious: frozenset[Formula] = frozenset()

    def found(self, domain: Facts, oblivious: frozenset[Formula]) -> Traced:
        """Return the main program; if the program branches on data, it takes the example's side.

        `oblivious`: questions that torch's fallback answers, whatever the point says.
        """
        self._oblivious = oblivious
        try:
            main = self._choose_main(domain)
        except Exception:  # torch traces torch.cond only where no size is 0
            if self._attempts.observed or not self._attempts.observe(domain):
                raise
            return self._choose_main(domain)
        if not self._attempts.observed and main.trial.branches_on_data and self._attempts.observe(domain):
            return self._choose_main(domain)
        return main

    def example_in(self, domain: Facts) -> Point | None:
        """Return the user's example, if it lies in this part of the domain."""
        example = self._attempts.inputs.example
        return example if example is not None and domain.contains(example) else None

    def _choose_main(self, domain: Facts) -> Traced:
        """Return a program that serves the example, traced at a point as generic as possible."""
        self._attempts.spare = None
        example = self.example_in(domain)
        self.adopted = self._tied(domain, example)
        self.settled_for = bool(self.adopted)
        domain = narrowed(domain, self.adopted)
        scouted = None if self.adopted else self._scouted(domain, example)
        if scouted is not None:
            return scouted
        if example is None:
            main = self._trace_apart(domain, self._attempts.sizes.generic(domain))
            return main if main.program is not None else self._elsewhere(domain, main)
        tried = list[Point]()
        point = self._accepted(domain, example, tried)
        traced = None if point is None else self._trace_apart(domain, point)
        first = None if traced is None or traced.program is None else traced
        if first is not None and self._attempts.takes_example(first):
            return first
        second = self._attempts.at(domain, example, self._oblivious)
        if second.program is None:
            if second.trial.learned.impossible is not None and first is None:
                raise Impossible(second.trial)
            raise second.error or RuntimeError("the model cannot be traced")
        if first is not None and self._judge.same(first, second):
            self._attempts.spare = None if self._oblivious or self._attempts.observed else second
            return first
        return self._generalize(domain, second, tried)

    def _accepted(self, domain: Facts, example: Point, tried: list[Point]) -> Point | None:
        """Return a generic point whose sizes the model accepts, to trace at; None if none is known.

        Where it rejects sizes that differ, the example's equal sizes are kept equal. Points tried are added to `tried`.
        """
        for cell in (domain, _alike(domain, example)):
            point = self._attempts.sizes.generic(cell) or example
            if point in tried:
                break
            tried.append(point)
            if not self._judge.rejects(point):
                return point
        return None

    def _tied(self, domain: Facts, example: Point | None) -> list[Narrowing]:
        """Return the equalities of the example that a large model needs, as its runs tell."""
        if example is None or self._scout is None or not self._attempts.inputs.domain.of_role(Role.INFERRED):
            return []
        from shapeproof.export.explore.inferred.ties import Ties  # most declarations infer nothing

        return Ties(self._scout.eager, domain, example).needed()

    def _scouted(self, domain: Facts, example: Point | None) -> Traced | None:
        """Return the main program in the simple domain that the model asks for, if that program serves the example."""
        if example is None or self._scout is None or self._oblivious:
            return None
        seen = self._scout.look(domain, example)
        if seen is None:
            return None
        here = narrowed(domain, seen.domain)
        main = as_trace_of(here, seen.at_example, seen.point) or self._attempts.at(here, seen.point)
        serves = self._attempts.takes_example(main) or self._judge.same(main, seen.at_example)
        if main.program is None or not serves:
            return None
        self.adopted, self.settled_for = seen.domain, seen.is_tied
        return main

    def _trace_apart(self, domain: Facts, point: Point | None, cell: Facts | None = None) -> Traced:
        """Trace at a point, or at one of its cell where no sizes are equal by chance against torch's general path."""
        best = self._attempts.at(domain, point, self._oblivious)
        apart = domain if cell is None else cell
        for _ in range(RETRIES):
            chance = [step.decision.taken for step in best.trial.size_steps if _is_by_chance(step)]
            needed = [each.taken for each in best.trial.decisions if each.kind is Kind.ASSERTED]
            apart = apart.assuming(*needed, *map(f.negate, chance))
            point = self._attempts.sizes.generic(apart) if chance else None
            other = best if point is None else self._attempts.at(domain, point, self._oblivious)
            if point is None or other.program is None:
                break
            best = other
        return best

    def _generalize(self, domain: Facts, example: Traced, tried: list[Point]) -> Traced:
        """Trace at a generic point that takes the example's decisions, except those that pin a size to the example's.

        If that program does not serve the example, trace at a point that keeps the example's equal sizes equal.
        """
        if not any(each.pins for each in example.trial.decisions):
            return example
        kept = (step.decision for step in example.trial.size_steps if not step.decision.pins)
        region = domain.assuming(*(decision.taken for decision in kept))
        for cell in (region, _alike(region, self._attempts.inputs.example or {})):
            point = self._attempts.sizes.generic(cell)
            if point is None or point in tried:
                continue
            tried.append(point)
            third = self._attempts.at(domain, point, self._oblivious)
            if third.program is not None and (self._attempts.takes_example(third) or self._judge.same(third, example)):
                return third
        return example

    def _elsewhere(self, domain: Facts, failed: Traced) -> Traced:
        """Without an example, trace at another point where the failed checks hold, or else at the smallest point."""
        others = ((step.beyond, self._attempts.sizes.generic(step.beyond)) for step in failed.trial.steps)
        for cell, point in reversed([(domain, self._attempts.sizes.smallest(domain)), *others]):
            if point is not None and (other := self._trace_apart(domain, point, cell)).program is not None:
                return other
        raise failed.error or RuntimeError("the model cannot be traced")


def _is_by_chance(step: Step) -> bool:
    """True if torch takes an equality of sizes that its general path, or the other side of its branch, does not."""
    of_torch = step.decision.kind is Kind.BRANCH and step.decision.operator is not None
    return step.decision.equated is not None and (step.overrules or of_torch)


def _alike(region: Facts, example: Mapping[str, int]) -> Facts:
    """Return the part of a region that keeps the example's equal sizes equal, since these may belong together."""
    first = dict[int, str]()
    return region.assuming(*(f.eq(symbol(n), symbol(first.setdefault(value, n))) for n, value in example.items()))
