"""Trace a model at points of cells; the traces are counted, and share what was seen of the example's data.

A trace that was made may serve as one in a part of its domain (`as_trace_of`).
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

import torch

from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import Point, holds_at
from shapeproof.constraints.terms import Term
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.explore.findings import Traced
from shapeproof.export.explore.points import Sizes
from shapeproof.export.graph.aliasing import told_layouts
from shapeproof.export.limits import TRACE_LIMIT
from shapeproof.export.source.errors import is_mistake
from shapeproof.export.trace.checks.raising import Raisings
from shapeproof.export.trace.closed_trial import Where
from shapeproof.export.trace.traced import translator_of
from shapeproof.export.trace.translate import Untranslatable
from shapeproof.export.trace.trial import Step, Trial
from shapeproof.plain import Saving, saves_time
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import implied


class Attempts:
    """Makes the traces of one exploration: `trace` makes one at a trial's point, `progress` is told of each step."""

    def __init__(
        self,
        inputs: Inputs,
        trace: Callable[..., torch.export.ExportedProgram],
        progress: Callable[[str], None],
        *,
        rolling: bool = True,
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
        self.spare: Traced | None = None
        """The trace at the example, if another one became the main program; it may serve as that of a cell."""
        self._how: dict[str, Any] = {} if rolling else {"loops": (), "branches": (), "parts": ()}
        """How traces are made: after a doubtful one not in place, since a model acts on layouts at all sizes; after
        one that may show a rounding, with torch's functions whole; after one in which a function of torch refuses
        `n > 1` for a bool, with each comparison decided at once; `rolling`: after one with a loop over a size, with
        one step recorded for all, and after one with a branch whose sides compute numbers, with both computed; after
        one that pads by remainders, and whose branches have too many sides, with the amounts that the model gives."""
        self._trace = trace
        self._progress = progress
        self._declared = inputs.facts().aside()

    def at(self, known: Facts, point: Point | None, oblivious: frozenset[Formula] = frozenset()) -> Traced:
        """Trace at a point of a cell, given the facts that define the cell."""
        if point is None:
            message = "the solver found no sizes that satisfy all declarations, and no proof that there are none"
            raise UsageError(f"{message}: give an example")
        once = functools.partial(self.once, known, point, oblivious)
        traced = once()
        if (
            isinstance(traced.error, TypeError)
            and torch.SymBool.__name__ in str(traced.error)
            and "at_once" not in self._how
        ):
            self._how["at_once"] = True
            traced = once()
        if traced.error is not None and traced.trial.differentiates and not self._how.get("below"):
            traced = self._if_better(traced, once, lambda *_: True, below=True)  # elsewhere, too, if the model raises
        if traced.trial.branches and "branches" not in self._how:
            traced = self._if_better(traced, once, _asks_less, branches=frozenset(traced.trial.branches))
        if traced.trial.parted and "parts" not in self._how:
            traced = self._if_better(traced, once, _asks_less, parts=True)
        if traced.trial.loops and "loops" not in self._how:
            traced = self._if_better(traced, once, _has_no_loop, loops=frozenset(traced.trial.loops))
        if traced.program is None and traced.trial.guessed:  # the model may check a guessed number later
            again = self.once(known, point, Where(self.domain.about_data))
            traced = again if again.program is not None else traced
        if traced.doubtful and "in_place" not in self._how:
            self._how["in_place"] = False
            traced = once()
        if traced.trial.padded and _has_many_sides(traced):
            self._how["remainders"] = False
            traced = once()
        if traced.trial.overwrites:
            self._how["holding"] = False
            traced = once()
        if traced.trial.shows_rounding:
            self._how["whole"] = True
            traced = once()
        return traced

    @property
    def writes_over(self) -> bool:
        """True if the model ran in another way: one step of a loop, both sides of a branch, rows as one value."""
        return any(self._how.get(each) for each in ("loops", "branches", "parts"))

    @property
    def rolled(self) -> frozenset[Any]:
        """The functions of which a loop is recorded by one step: file, line and name."""
        return frozenset(self._how.get("loops", ()))

    def _if_better(
        self, traced: Traced, once: Callable[[], Traced], better: Callable[[Traced, Traced], bool], **how: Any
    ) -> Traced:
        """Trace again, in another way; if there is no program then, or it is no better, return the first trace.

        A mistake of this package is raised, not hidden behind the first trace.
        """
        self._how |= how
        again = once()
        if again.error is not None and is_mistake(again.error):
            raise again.error
        if again.program is not None and better(again, traced):
            return again
        self._how |= dict.fromkeys(how, ())
        return traced

    def in_part(self, cell: Facts, point: Point | None) -> Traced:
        """Trace at a point of a cell, unless the spare trace serves; it is changed, so it serves one cell."""
        there = None if self.spare is None or point is None else as_trace_of(cell, self.spare, point)
        self.spare = self.spare if there is None else None
        return there or self.at(cell, point)

    def once(self, known: Facts, point: Point, oblivious: Container[Formula] = ()) -> Traced:
        """Trace once; the result may be doubtful, or have guessed a number from data."""
        self.made += 1
        self._progress(f"tracing at {self.sizes.describe(point)}")
        trial = Trial(
            known, point, data=self.domain.is_data, oblivious=oblivious, observed=self.observed, raising=self.raising
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


def _asks_less(again: Traced, traced: Traced) -> bool:
    """True if a trace leaves fewer questions open, and at most one that is new.

    New ones are about sizes that the branches have computed, by cases, and each costs many traces.
    """
    before, after = ([step.decision.formula for step in each.trial.size_steps] for each in (traced, again))
    return len(after) < len(before) and len({*after} - {*before}) <= 1


def _has_many_sides(traced: Traced) -> bool:
    """True if the sides of the model's own branches need more traces together than one export may take."""
    return 2 ** sum(step.decision.of_the_model for step in traced.trial.size_steps) >= TRACE_LIMIT


def _has_no_loop(again: Traced, _: Traced) -> bool:
    return not again.trial.loops


def as_trace_of(here: Facts, traced: Traced, point: Mapping[str, int]) -> Traced | None:
    """Return a trace as one at a generic point of a part of its domain; None if that must be traced separately.

    The decisions of a trace determine its path. If a generic point of the part takes all of them, a trace at that point
    would record the same operators. Such a trace would know the part's facts from its start. So none of the decisions
    that these leave open may be an equality or be about data, and no number that the graph computes may have a single
    value. The scout's trace may so become the main program's, and the example's trace that of a cell.

    The trace is changed: afterwards it is a trace of that part alone.
    """
    trial = traced.trial
    if not saves_time(Saving.TRACES):
        return None
    if traced.doubtful or trial.guessed or not set(trial.known.formulas) <= set(here.formulas):
        return None
    if not here.contains(trial.point) or not _is_generic(trial, point) or not _computes_alike(traced, here):
        return None
    open_ = [step for step in trial.steps if not implied(step.decision.taken, here)]
    if any(step.decision.equated is not None or trial.about_data(step.decision.formula) for step in open_):
        return None
    trial.questions.answered |= {step.decision.formula: step.decision for step in trial.steps}
    trial.questions.relative |= trial.questions.answered.keys()
    trial.harmless = [step for step in trial.harmless if not implied(step.decision.taken, here)]
    _rebase(trial, here, open_)
    return traced


def _rebase(trial: Trial, here: Facts, open_: Sequence[Step]) -> None:
    """Have a trial begin with the facts of a part of its domain, where it decided only these steps."""
    trial.known, trial.facts = here, here.assuming(*trial.learned.formulas)
    trial.region, trial.steps = trial.facts.fork(), []
    for step in open_:
        trial.take(step)


def _is_generic(trial: Trial, point: Mapping[str, int]) -> bool:
    """True if a point takes every open decision as the trial did, and no harmless one by torch's fallback instead."""
    against = [step.decision.taken for step in trial.harmless if step.overrules]
    return trial.takes(point) and all(holds_at(each, point) for each in against if each.symbols <= point.keys())


def _computes_alike(traced: Traced, here: Facts) -> bool:
    """True if no symbolic number that the graph computes has a single value in the domain."""
    translator = translator_of(traced.exported)
    numbers = [node.meta.get("val") for node in traced.exported.graph.nodes]
    try:
        terms = {translator.term(each.node.expr) for each in numbers if isinstance(each, torch.SymInt)}
    except Untranslatable:
        return False
    return not any(isinstance(known, Term) and known.is_constant for known in map(here.reduce, terms))
