"""A program that is taken apart (`run_decompositions`, or by a compiler) must do what it does whole.

An operator that a program keeps whole may come apart for one side of a question about sizes alone: `pad_sequence` asks
which sequence is the longest. What comes apart is therefore run beside the program, at the smallest points at which
each such question is answered otherwise. That is a trial and no proof: what is refused is wrong, and what is let
through was right where it was tried. Where results are random, their shapes are compared.

Nothing is changed here: not the program, and not what is known of it.
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.records.decisions import Decision
from shapeproof.constraints.syntax.text import format_formula
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.explore.beside_eager import replay
from shapeproof.export.explore.beside_eager.corners import SEEDS, fits
from shapeproof.export.graph import nodes
from shapeproof.export.shim import consumers
from shapeproof.export.shim.process.one_thread import one_thread
from shapeproof.export.shim.process.quiet import quiet
from shapeproof.export.shim.trees import map_tensors
from shapeproof.export.trace.trial import Step, Trial, flipped
from shapeproof.solver.answers.witness import ascending, generic
from shapeproof.solver.facts import Facts
from shapeproof.wording import short

POINTS = 4
"""At how many points with another answer both are run, the smallest first, and one more that is generic."""
SMALL_INTEGERS = (-1, 0, 1, 2)
"""What integer inputs are made up of, where a question is about data."""

_DIFFERS = (
    "taken apart, {} serves sizes with {} alone: {} {}; keep the operator whole (`run_decompositions` with a table "
    "without it), or declare those sizes alone"
)
_SEEN = {
    replay.Relation.PROGRAM_RAISES: "it raises {}",
    replay.Relation.EAGER_RAISES: "it does not raise {}",
    replay.Relation.DIFFERENT: "its results differ",
}
_Program = torch.export.ExportedProgram


class TakenApart:
    """Takes a program apart, and sees that it still does what it did.

    Args:
        program: whole, its trace over.
        inputs: what was declared.
    """

    def __init__(self, program: _Program, inputs: Inputs) -> None:
        self._program = program
        self.inputs = inputs
        self._where: Facts | None = None

    def by(self, decompose: Callable[[], _Program]) -> _Program:
        """What comes of a program, if it is right wherever that was tried.

        Raises:
            UsageError: it is not; the sentence names the operator, the question and sizes.
        """
        with one_thread:
            with replay.asking(self._program, Trial.once_more) as trial:
                apart = decompose()
            if trial is not None and trial.steps:
                self._run_beside(apart, trial)
        return apart

    def where(self) -> Facts:
        """What holds of the inputs for which a compiler takes the program apart, which is tried once.

        A compiler that asks is in the middle of a trace of its own: another thread is in none.
        """
        if self._where is None:
            found = list[Facts | Exception]()
            thread = threading.Thread(target=lambda: found.append(self._tried()))
            with one_thread:  # on the thread's behalf, which must not take it: it may be held here already
                thread.start()
                thread.join()
            if isinstance(found[0], Exception):
                raise found[0]
            self._where = found[0]
        return self._where

    def _tried(self) -> Facts | Exception:
        try:
            with replay.asking(self._program, Trial.once_more) as trial, quiet():
                apart = consumers.as_compiled(self._program)
        except Exception as error:  # noqa: BLE001 - raised where it was asked for
            return error
        if trial is None:
            return Facts(())
        try:
            self._run_beside(apart, trial)
        except UsageError as error:
            return error
        return trial.region

    def _run_beside(self, apart: _Program, trial: Trial) -> None:
        look = torch.zeros_like if nodes.is_random(self._program.graph) else _unchanged
        whole, made = (_Run(replay.fresh_modules(each), look) for each in (self._program, apart))
        form = replay.Form(lambda: made)
        for step, point in self._otherwise(trial):
            sizes = ", ".join(f"{self.inputs.user_names[name]} = {point[name]}" for name in sorted(point))
            self._judge(replay.compare(whole, [form], self.inputs, point), step.decision, f"at {sizes}")
        for step in trial.steps:
            if trial.about_data(step.decision.formula):
                for args, kwargs in self._data(trial.point):
                    self._judge(replay.compare_on(whole, form, args, kwargs, 1), step.decision, "on other data")

    def _judge(self, found: replay.Replay, decision: Decision, where: str) -> None:
        if not found.agrees:
            asked = format_formula(decision.taken, rename=self.inputs.user_names)
            seen = _SEEN[found.relation].format(found.text)
            raise UsageError(_DIFFERS.format(_operator(decision), asked, where, seen))

    def _otherwise(self, trial: Trial) -> Iterator[tuple[Step, dict[str, int]]]:
        """Points at which a question is answered otherwise than it was; first those where no other question is."""
        steps = [step for step in trial.steps if not trial.about_data(step.decision.formula)]
        for step in steps:
            cell = trial.known.fork()
            for other in steps:
                cell.learn(other.decision.taken if other is not step else flipped(step))
            yield from ((step, point) for point in self._points(cell, trial.point))
        for step in steps:
            cell = step.given.fork()
            cell.learn(flipped(step))
            yield from ((step, point) for point in self._points(cell, trial.point))

    def _data(self, point: Mapping[str, int]) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
        """Inputs with other data: what is asked about data cannot be had at will."""
        for seed in SEEDS:
            yield self.inputs.at(point, filled=True, seed=seed)
        args, kwargs = self.inputs.at(point, filled=True)
        for value in SMALL_INTEGERS:
            yield replay.map_integers(args, kwargs, functools.partial(torch.full_like, fill_value=value))

    def _points(self, cell: Facts, begun: Mapping[str, int]) -> Iterator[dict[str, int]]:
        """A generic point and the smallest ones, as far as they fit into memory."""
        names = sorted(self.inputs.domain.symbols)
        for found in (generic(cell, names), *itertools.islice(ascending(cell, names), POINTS)):
            if isinstance(found, dict):
                point = {name: {**begun, **found}[name] for name in names}
                if fits(self.inputs, begun, point):
                    yield point


def _unchanged(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


class _Run(torch.nn.Module):
    """A program that starts anew with each call, so that nobody need copy it; its results as they are looked at."""

    def __init__(self, fresh: Callable[[], torch.nn.Module], look: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self._fresh, self._look = fresh, look

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the program gives; of random results only the shapes can be compared."""
        return map_tensors(self._fresh()(*args, **kwargs), self._look)

    def __deepcopy__(self, _: Any) -> _Run:
        return self


def _operator(decision: Decision) -> str:
    if decision.operator is not None:
        return f"`{decision.operator}`"
    return f"an operator ({short(decision.framework.file)})" if decision.framework else "an operator"
