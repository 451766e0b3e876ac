"""Trace the model at points of its domain; the traces are counted, and share what was seen of the example's data."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Container

import torch

from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import Point
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.explore.findings import Traced
from shapeproof.export.explore.points import Sizes
from shapeproof.export.graph.relaid import told_layouts
from shapeproof.export.trace.checks.raising import Raisings
from shapeproof.export.trace.closed_trial import Where
from shapeproof.export.trace.trial import Trial
from shapeproof.solver.facts import Facts


class Attempts:
    """Makes the traces of one exploration: `trace` makes one at a trial's point, `progress` is told of each step."""

    def __init__(
        self, inputs: Inputs, trace: Callable[..., torch.export.ExportedProgram], progress: Callable[[str], None]
    ) -> None:
        self.inputs = inputs
        self.sizes = Sizes(inputs)
        self.domain = inputs.domain
        self.made = 0
        """The number of traces so far."""
        self.observed: dict[str, float] = {}
        """The numbers that the example's data give, if the model branches on them."""
        self.raising: Raisings = {}
        """Exceptions of the model on one side of a branch on data; in later traces, such a branch is a check."""
        self._how: dict[str, bool] = {}
        """How traces are made: after a doubtful one not in place, since a model acts on layouts at all sizes; after
        one that may show a rounding, with torch's functions whole."""
        self._trace = trace
        self._progress = progress
        self._declared = inputs.facts().aside()

    def at(self, known: Facts, point: Point | None, oblivious: frozenset[Formula] = frozenset()) -> Traced:
        """Trace at a point of a cell, given the facts that define the cell."""
        if point is None:
            message = "the solver found no sizes that satisfy all declarations, and no proof that there are none"
            raise UsageError(f"{message}: give an example")
        traced = self.once(known, point, oblivious)
        if traced.program is None and traced.trial.guessed:  # the model may check a guessed number later
            again = self.once(known, point, Where(self.domain.about_data))
            traced = again if again.program is not None else traced
        if traced.doubtful and "in_place" not in self._how:
            self._how["in_place"] = False
            traced = self.once(known, point, oblivious)
        if traced.trial.shows_rounding:
            self._how["whole"] = True
            traced = self.once(known, point, oblivious)
        return traced

    def once(self, known: Facts, point: Point, oblivious: Container[Formula] = ()) -> Traced:
        """Trace once; the result may be doubtful, or have guessed a number from data."""
        self.made += 1
        self._progress(f"tracing at {self.sizes.describe(point)}")
        trial = Trial(
            known,
            point,
            data=self.domain.is_data,
            oblivious=oblivious,
            observed=self.observed,
            raising=self.raising,
        )
        trial.shared.declared, trial.layouts.forgiving = self._declared, True
        try:
            program = self._trace(trial, **self._how)
            trial.keep(told_layouts(program.graph, trial.layouts.forgotten))
            return Traced(trial, program)
        except Exception as error:  # noqa: BLE001 - the caller judges what stopped the trace
            trial.keep([*trial.layouts.forgotten])
            return Traced(trial, None, error)
        finally:
            trial.leave()

    def takes_example(self, traced: Traced) -> bool:
        """True if a trace takes the example's decisions."""
        return traced.trial.takes({**self.observed, **(self.inputs.example or {})})

    def observe(self, domain: Facts) -> bool:
        """Record the numbers that the example's data give, to take their side; True if torch determines any number."""
        if self.inputs.example is None:
            return False
        self.made += 1
        trial = Trial(domain, self.inputs.example, data=self.domain.is_data, raising=self.raising)
        with contextlib.suppress(Exception):
            self._trace(trial, on_data=True)
        self.observed = trial.data_point.observed
        return bool(self.observed)
