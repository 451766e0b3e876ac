"""Judge a cell: does the main program serve it? Its trace is compared, and program and eager are run at its points."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import Point
from shapeproof.export.explore.beside_eager import replay, runner
from shapeproof.export.explore.beside_eager.forms import Form, module_of
from shapeproof.export.explore.compare import equivalence
from shapeproof.export.explore.compare.operations import Difference
from shapeproof.export.explore.findings import Cell, Exploration, Finding, Outcome, Traced
from shapeproof.export.explore.points import Attempts
from shapeproof.export.graph import nodes
from shapeproof.export.limits import CHEAP_ELEMENTS, TRIES
from shapeproof.export.source.errors import raised_at_run_time, raised_by_user
from shapeproof.export.trace import tracer
from shapeproof.export.trace.checks import raising
from shapeproof.export.trace.traced import translator_of
from shapeproof.export.trace.trial import Step, Trial
from shapeproof.plain import Saving, saves_time
from shapeproof.solver.answers.witness import ascending
from shapeproof.solver.facts import Facts
from shapeproof.wording import with_kind


class Judge:
    """Compares the main program with the model, by other traces and by runs.

    `splitting`: what one program does not serve goes to another program.
    """

    def __init__(self, eager: replay.Eager, attempts: Attempts, *, splitting: bool) -> None:
        self._eager = eager
        self._attempts = attempts
        self._splitting = splitting

    def same(self, program: Traced, there: Traced) -> bool:
        """True if a program serves the region of another trace, also after decomposition."""
        if program.program is None or there.program is None:
            return False
        point = self._attempts.sizes.of(there.trial.point)
        alike = equivalence.same(program.program, there.program, there.trial)
        return alike and self._eager.agrees_apart(program.program, point)

    def rejects(self, point: Point) -> bool:
        """True if the model rejects the sizes of a point, so that a trace there would only raise.

        A model with one size is not run: no two sizes of it are unequal. A large model is run without data first.
        """
        inputs = self._attempts.inputs
        if len(self._attempts.sizes.declared) < 2 or inputs.elements(point) > CHEAP_ELEMENTS:
            return False
        if not self._eager.is_quick(point) and self._eager.rejection(point) is None:
            return False
        return self._eager.error(point) is not None and self._eager.rejection(point) is not None

    def of_runs(self, step: Step, cell: Facts, point: Point, forms: Sequence[Form]) -> Finding | None:
        """Run the program at the cell's smallest point before tracing; if splitting, also at `point`.

        While splitting, differing results say more than an error, which exploring the other program shows again.
        """
        if self._attempts.domain.about_data(step.decision.formula):
            return None
        first = None
        for each in (self._attempts.sizes.smallest(cell), self._attempts.sizes.of(point) if self._splitting else None):
            found = None if each is None else self._replayed(step, each, forms)
            if found is not None and found.outcome is Outcome.DIFFERS:
                return found
            first = first or found
        return first

    def of_generic_run(self, step: Step, cell: Facts, forms: Sequence[Form]) -> Finding | None:
        """Run the program at a generic point, where that costs little beside a trace there, which would differ, too."""
        point = self._attempts.sizes.cheap(cell)
        about_data = self._attempts.domain.about_data(step.decision.formula)
        if point is None or about_data or not saves_time(Saving.REJECTIONS):
            return None
        differs = self._replayed(step, point, forms) is not None
        return self._smallest_replayed(step, cell, [point], forms) if differs else None

    def of_rejection(self, step: Step, cell: Facts) -> Finding | None:
        """Return the finding that the model rejects a cell, if a trace of the cell would only raise; None if not known.

        A trace runs the model at a generic point on tensors without data. If such a run with plain numbers for sizes
        raises there, the trace would raise as well, after many times the work. If eager raises at the cell's smallest
        point, too, that point is the witness, with or without a trace.
        """
        smallest, point = self._attempts.sizes.smallest(cell), self._attempts.sizes.generic(cell)
        if smallest is None or point is None or not saves_time(Saving.REJECTIONS):
            return None
        rejecting = functools.partial(self._eager.rejection, self._attempts.sizes.of(point))
        if not self._eager.is_quick(smallest) and rejecting() is None:
            return None
        failure = self._eager.failure_at(smallest, step.decision.where)
        rejection = None if failure is None else rejecting()
        if failure is None or rejection is None:
            return None
        return Finding(Outcome.RAISES, step.decision, smallest, failure, by_model=rejection.by_model)

    def _replayed(self, step: Step, point: Point, forms: Sequence[Form]) -> Finding | None:
        """Return a finding if eager and the program disagree at a point."""
        wrong = self.disagreement(forms, point)
        if wrong is None:
            return None
        outcome = _OUTCOMES.get(wrong.relation, Outcome.DIFFERS)
        return Finding(outcome, step.decision, point, wrong.sentence)

    def disagreement(self, forms: Sequence[Form], point: Point, *, calls: int = 1) -> runner.Replay | None:
        """Return the replay at a point if the program, in any form, disagrees with eager there."""
        result = self.replay(forms, point, calls=calls)
        return None if result.agrees else result

    def replay(self, forms: Sequence[Form], point: Point, *, calls: int = 1) -> runner.Replay:
        """Run both at a point; results that differ faintly are different if those at the example do not."""
        result, example = self._eager.compare(forms, point, calls=calls), self._attempts.inputs.example
        if not result.is_faint or example is None or self._eager.compare(forms, example).is_faint:
            return result
        return replace(result, relation=runner.Relation.DIFFERENT, text="the values differ, all of which are tiny")

    def of_trace(self, step: Step, cell: Facts, there: Traced, found: Exploration) -> Finding | None:
        """Return a finding unless the main program serves the traced part of the cell."""
        main = found.main
        if main.program is None:
            raise ValueError("there is no program to judge")
        if there.program is None:
            return self._of_failure(step, cell, there, main.program)
        difference = equivalence.difference(main.program, there.program, there.trial)
        if difference is None:
            return None
        if self._attempts.domain.about_data(step.decision.formula):
            return Finding(Outcome.DATA, step.decision, dict(there.trial.point), difference.text)
        return self._of_difference(step, there, difference, found.forms)

    def _of_failure(
        self, step: Step, cell: Facts, there: Traced, program: torch.export.ExportedProgram
    ) -> Finding | None:
        """Judge a cell in which tracing fails: does eager raise there, and for data, does the program?"""
        text = with_kind(there.error)
        if self._attempts.domain.about_data(step.decision.formula):
            again = Trial(cell, there.trial.point, data=self._attempts.domain.is_data)
            try:
                tracer.trace(module_of(program), self._attempts.inputs, again)
            except Exception as error:  # noqa: BLE001 - it is judged here
                if raised_at_run_time(error) and raised_at_run_time(there.error):
                    return None
            if not there.trial.steps and raised_by_user(there.error):
                domain = self._attempts.inputs.facts()
                raising.note(self._attempts.raising, step, there.trial, domain, text)
            return Finding(Outcome.DATA, step.decision, dict(there.trial.point), text)
        corners = self._attempts.sizes.smallest(cell), self._attempts.sizes.smallest(there.trial.region)
        for point in (each for each in (*corners, self._attempts.sizes.of(there.trial.point)) if each is not None):
            failure = self._eager.failure_at(point, step.decision.where)
            if failure is not None:
                own = not there.trial.steps and raised_by_user(there.error)
                return Finding(Outcome.RAISES, step.decision, point, failure, by_model=own)
        return Finding(
            Outcome.UNDECIDED,
            step.decision,
            self._attempts.sizes.of(there.trial.point),
            f"it cannot be traced there: {text}",
        )

    def _of_difference(self, step: Step, there: Traced, difference: Difference, forms: Sequence[Form]) -> Finding:
        """Judge a cell in which the programs differ: do their results differ at a concrete input?"""
        outcome = Outcome.DIFFERS if difference.certain else Outcome.UNDECIDED
        seen = self._smallest_replayed(step, there.trial.region, self._telling(there), forms)
        point = self._attempts.sizes.of(there.trial.point)
        return seen or Finding(outcome, step.decision, point, difference.text, Cell(noted_where=difference.unless))

    def _telling(self, there: Traced) -> Iterator[Point]:
        """Yield the smallest sizes at which each tensor that a trace returns has elements, then those of the trace."""
        if there.program is not None:
            full = self._attempts.sizes.smallest(there.trial.region.assuming(_with_elements(there.program)))
            yield from [] if full is None else [full]
        yield self._attempts.sizes.of(there.trial.point)

    def _smallest_replayed(
        self, step: Step, facts: Facts, more: Iterable[Point], forms: Sequence[Form]
    ) -> Finding | None:
        """Return the finding at the first of the smallest points, or else of more points, where results disagree."""
        smallest_first = itertools.islice(ascending(facts, sorted(self._attempts.sizes.declared)), TRIES)
        points = itertools.chain(map(self._attempts.sizes.of, smallest_first), more)
        found = (self._replayed(step, point, forms) for point in points)
        return next((each for each in found if each is not None), None)


_OUTCOMES = {
    runner.Relation.EAGER_RAISES: Outcome.RAISES,
    runner.Relation.MAY_DIFFER: Outcome.UNDECIDED,
}


def _with_elements(program: torch.export.ExportedProgram) -> Formula:
    """Return where each tensor that a program returns has elements."""
    read = translator_of(program).read
    returned = map(nodes.metadata, program.graph.output_node().all_input_nodes)
    tensors = (made for made in returned if isinstance(made, torch.Tensor))
    return f.conjunction(*(f.ge(read(size), 1) for made in tensors for size in made.shape))
