"""Compare the main program with the model: by a trace of a cell, and by runs of program and eager at points."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import Point
from shapeproof.export.explore.attempts import Attempts
from shapeproof.export.explore.beside_eager import replay, runner
from shapeproof.export.explore.beside_eager.forms import Form, module_of
from shapeproof.export.explore.compare import equivalence
from shapeproof.export.explore.compare.operations import Difference
from shapeproof.export.explore.findings import Case, Cell, Finding, Outcome, Traced
from shapeproof.export.graph import nodes
from shapeproof.export.limits import CHEAP_ELEMENTS, TRIES
from shapeproof.export.source.errors import raised_at_run_time, raised_by_user
from shapeproof.export.trace import tracer
from shapeproof.export.trace.checks import raising
from shapeproof.export.trace.traced import translator_of
from shapeproof.export.trace.trial import Trial
from shapeproof.solver.answers.witness import ascending
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import implied
from shapeproof.wording import with_kind


class Judge:
    """Compares the main program with the model, by other traces and by runs."""

    def __init__(self, eager: replay.Eager, attempts: Attempts) -> None:
        self._eager = eager
        self._attempts = attempts
        self._inputs = attempts.inputs
        self._sizes = attempts.sizes

    def same(self, program: Traced, there: Traced) -> bool:
        """True if a program serves the region of another trace, also after decomposition."""
        if program.program is None or there.program is None:
            return False
        point = self._sizes.of(there.trial.point)
        alike = equivalence.same(program.program, there.program, there.trial)
        return alike and self._eager.agrees_apart(program.program, point)

    def rejects(self, point: Point) -> bool:
        """True if the model rejects the sizes of a point, so that a trace there would only raise.

        A model with one size is not run: no two sizes of it are unequal. A large model is run without data first.
        """
        inputs = self._inputs
        if len(self._sizes.declared) < 2 or inputs.elements(point) > CHEAP_ELEMENTS:
            return False
        if not self._eager.is_quick(point) and self._eager.rejection(point) is None:
            return False
        return self._eager.error(point) is not None and self._eager.rejection(point) is not None

    def at(self, case: Case, point: Point) -> Finding | None:
        """Return a finding if eager and the program disagree at a point."""
        wrong = self.replay(case.found.forms, point)
        if wrong.agrees:
            return None
        outcome = _OUTCOMES.get(wrong.relation, Outcome.DIFFERS)
        return Finding(outcome, case.decision, point, wrong.sentence)

    def replay(self, forms: Sequence[Form], point: Point, *, calls: int = 1) -> runner.Replay:
        """Run both at a point; results that differ faintly are different if those at the example do not."""
        result, example = self._eager.compare(forms, point, calls=calls), self._inputs.example
        if not result.is_faint or example is None or self._eager.compare(forms, example).is_faint:
            return result
        return replace(result, relation=runner.Relation.DIFFERENT, text="the values differ, all of which are tiny")

    def of_trace(self, case: Case, there: Traced) -> Finding | None:
        """Return a finding unless the main program serves the traced part of the cell."""
        program = case.found.main.exported
        if there.program is None:
            return self._of_failure(case, there, program)
        difference = equivalence.difference(program, there.program, there.trial)
        if difference is None:
            return None
        if case.data:
            return Finding(Outcome.DATA, case.decision, dict(there.trial.point), difference.text)
        return self._of_difference(case, there, difference)

    def _of_failure(self, case: Case, there: Traced, program: torch.export.ExportedProgram) -> Finding | None:
        """Judge a cell in which tracing fails: does eager raise there, and for data, does the program?"""
        text = with_kind(there.error)
        if case.data:
            again = Trial(case.cell, there.trial.point, data=self._attempts.domain.is_data)
            try:
                tracer.trace(module_of(program), self._inputs, again)
            except Exception as error:  # noqa: BLE001 - it is judged here
                at_run_time = raised_at_run_time(error) and raised_at_run_time(there.error)
                if at_run_time and not there.trial.is_unfit and _goes_for_all(again, there.trial.region):
                    return None
            if not there.trial.steps and not there.trial.is_unfit and raised_by_user(there.error):
                domain = self._inputs.facts()
                raising.note(self._attempts.raising, case.step, there.trial, domain, text)
            return Finding(Outcome.DATA, case.decision, dict(there.trial.point), text)
        traced = self._sizes.of(there.trial.point)
        corners = self._sizes.smallest(case.cell), self._sizes.smallest(there.trial.region)
        for point in (each for each in (*corners, traced) if each is not None):
            failure = self._eager.failure_at(point, case.decision.where)
            if failure is not None:
                own = not there.trial.steps and raised_by_user(there.error)
                return Finding(Outcome.RAISES, case.decision, point, failure, by_model=own)
        return Finding(Outcome.UNDECIDED, case.decision, traced, f"it cannot be traced there: {text}")

    def _of_difference(self, case: Case, there: Traced, difference: Difference) -> Finding:
        """Judge a cell in which the programs differ: do their results differ at a concrete input?"""
        outcome = Outcome.DIFFERS if difference.certain else Outcome.UNDECIDED
        seen = self.at_smallest(case, there.trial.region, self._telling(there))
        point = self._sizes.of(there.trial.point)
        return seen or Finding(outcome, case.decision, point, difference.text, Cell(noted_where=difference.unless))

    def _telling(self, there: Traced) -> Iterator[Point]:
        """Yield the smallest sizes at which each tensor that a trace returns has elements, then those of the trace."""
        if there.program is not None:
            full = self._sizes.smallest(there.trial.region.assuming(_with_elements(there.program)))
            yield from [] if full is None else [full]
        yield self._sizes.of(there.trial.point)

    def at_smallest(self, case: Case, facts: Facts, more: Iterable[Point]) -> Finding | None:
        """Return the finding at the first of the smallest points, or else of more points, where results disagree."""
        smallest_first = itertools.islice(ascending(facts, sorted(self._sizes.declared)), TRIES)
        points = itertools.chain(map(self._sizes.of, smallest_first), more)
        found = (self.at(case, point) for point in points)
        return next((each for each in found if each is not None), None)


_OUTCOMES = {runner.Relation.EAGER_RAISES: Outcome.RAISES, runner.Relation.MAY_DIFFER: Outcome.UNDECIDED}


def _goes_for_all(raising: Trial, region: Facts) -> bool:
    """True if a trace that raises does so for all inputs of a region, not at the sizes of its point alone."""
    return not raising.is_unfit and all(implied(step.decision.taken, region) for step in raising.steps)


def _with_elements(program: torch.export.ExportedProgram) -> Formula:
    """Return where each tensor that a program returns has elements."""
    read = translator_of(program).read
    returned = map(nodes.metadata, program.graph.output_node().all_input_nodes)
    tensors = (made for made in returned if isinstance(made, torch.Tensor))
    return f.conjunction(*(f.ge(read(size), 1) for made in tensors for size in made.shape))
