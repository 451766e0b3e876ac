"""Tries exports for a call that no program serves, the most general first, and takes the first that is proved.

declared   what the user declared, split if one program does not serve all of it
seen       sizes that varied are dynamic, and every seen input is served
around     sizes that varied are dynamic, and this call is served
static     this call's sizes alone

An undecided program is not taken: it might refuse what eager takes.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.syntax.text import parse_formula
from shapeproof.export import ConstraintViolation, Regions, Report, VerifiedProgram, check
from shapeproof.export.declare.inputs import declare
from shapeproof.export.shim.inputs import binding
from shapeproof.seen import Seen
from shapeproof.seen.calls import Call, read_call, size_names
from shapeproof.wording import first_line

Args = tuple[Any, ...]


@dataclass
class Learned:
    """The knowledge about calls of one form: what was seen, and which attempts failed.

    Attributes:
        split: whether one program was found not to serve all that was seen.
        declared: whether there are programs of the declared domain.
        restless: how many calls changed state that the model may read.
        failed: the sizes for which no attempt gave a program.
        said: the reason for the last of them.
    """

    seen: Seen
    split: bool = False
    declared: bool = False
    restless: int = 0
    failed: set[tuple[int, ...]] = field(default_factory=set)
    said: str = ""


class Exporter:
    """Exports one model for calls."""

    def __init__(self, model: torch.nn.Module, dynamic_shapes: Any, constraints: Sequence[str]) -> None:
        self._model = model
        self._declared = dynamic_shapes
        self._constraints = tuple(constraints)
        self._could_be_meant = False

    def call(self, args: Args, kwargs: dict[str, Any]) -> Call:
        """Return a call in the form that `Seen` keeps.

        Raises:
            UsageError: the inputs do not fit the model.
        """
        return read_call((source, value) for source, _, value in binding.name_leaves(self._model, args, kwargs))

    def export(
        self, args: Args, kwargs: dict[str, Any], learned: Learned, *, static: bool
    ) -> tuple[tuple[VerifiedProgram, ...], bool, str]:
        """Return the programs for a call, whether the declared domain gave them, and the reason if there are none.

        `static`: the program is to serve the sizes of this call alone.

        Raises:
            ConstraintViolation: what was declared is refuted.
            UsageError: it is invalid, or does not hold of the first call.
        """
        if self._declared is not None and not (learned.declared or static):
            try:
                programs = self._of_declared(args, kwargs)
            except UsageError:
                if not self._could_be_meant:
                    raise
                programs = ()
            if programs:
                learned.declared = self._could_be_meant = True
                return programs, True, ""
        found, said = self._inferred(args, kwargs, learned, static=static)
        return found, False, said

    def _of_declared(self, args: Args, kwargs: dict[str, Any]) -> tuple[VerifiedProgram, ...]:
        """Return the programs of the declared domain, with this call as the example; none if it is undecided.

        Raises:
            ConstraintViolation: it is refuted.
            UsageError: it is invalid, or does not hold of this call.
        """
        report = self._check(args, kwargs, self._declared, self._constraints, branches="split")
        if report.raised is not None:  # so this call raises, whatever is declared
            raise report.raised
        if report.status in {"refuted", "vacuous"}:
            raise ConstraintViolation(report)
        return _programs(report)

    def _inferred(
        self, args: Args, kwargs: dict[str, Any], learned: Learned, *, static: bool
    ) -> tuple[tuple[VerifiedProgram, ...], str]:
        """Return the programs of the first attempt that is proved, or else the reason."""
        said = ""
        for attempt in self._attempts(args, kwargs, learned, static=static):
            try:
                report = attempt()
            except Exception as error:  # noqa: BLE001 - whatever the model or torch raises, eager is there
                said = first_line(error)
                continue
            if report.status == "proved":
                return _programs(report), ""
            said = report.status if not report.diagnostics else f"{report.status}: {report.diagnostics[0].message}"
        return (), said

    def _attempts(
        self, args: Args, kwargs: dict[str, Any], learned: Learned, *, static: bool
    ) -> Iterator[Callable[[], Report]]:
        varied = {} if static else spans(learned.seen)
        constraints = [each for each in self._constraints if parse_formula(each).symbols <= varied.keys()]
        if varied and not learned.split:
            yield lambda: self._all_seen(args, kwargs, learned, constraints)
        if varied:
            yield lambda: self._check(args, kwargs, self._automatic(args, kwargs, varied), constraints)
        yield lambda: self._check(args, kwargs, None, ())

    def _automatic(self, args: Args, kwargs: dict[str, Any], varied: Collection[str]) -> Any:
        """Return dynamic_shapes with Dim.AUTO for each size that varied."""
        plain = declare(self._model, args, kwargs, None)
        return plain.automatic(lambda leaf, index: leaf.size_name(index) in varied)

    def _all_seen(self, args: Args, kwargs: dict[str, Any], learned: Learned, constraints: Sequence[str]) -> Report:
        report = self._check(args, kwargs, learned.seen, constraints)
        learned.split = report.status == "refuted"
        return report

    def _check(
        self, args: Args, kwargs: dict[str, Any], shapes: Any, constraints: Sequence[str], branches: str = "error"
    ) -> Report:
        with no_random_numbers():
            return check(
                self._model, args, kwargs, dynamic_shapes=shapes, constraints=tuple(constraints), branches=branches
            )


@contextlib.contextmanager
def no_random_numbers() -> Iterator[None]:
    """Restore the generators of Python and NumPy after a trace or a rehearsal.

    Raises:
        UsageError: the model draws from them; a program would keep what it drew in the trace.
    """
    python, numpys = random.getstate(), np.random.get_state()  # noqa: NPY002 - the generator that models draw from
    try:
        yield
        if random.getstate() != python or repr(np.random.get_state()) != repr(numpys):  # noqa: NPY002
            raise UsageError("the model draws random numbers of Python's or NumPy's, which a program cannot")
    finally:
        random.setstate(python)
        np.random.set_state(numpys)  # noqa: NPY002


def _programs(report: Report) -> tuple[VerifiedProgram, ...]:
    if report.status != "proved" or report.program is None:
        return ()
    return report.program.programs if isinstance(report.program, Regions) else (report.program,)  # type: ignore[return-value]  # of this run


def spans(seen: Seen) -> dict[str, tuple[int, int]]:
    """Return the sizes that varied in calls of one form, each with the least and the greatest seen."""
    ends = ((size_names(kind), joint.bounds) for kind, joint in seen.joints.items())
    return {name: (low, high) for each in ends for name, (low, high) in zip(*each, strict=True) if low < high}
