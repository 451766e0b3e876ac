"""Turn a branch on data into a check where the same branch is known to raise on one side.

A side was seen to raise in one part of the domain. The questions asked there may have other answers elsewhere in the
domain. The branch becomes a check only where these questions have the same answers.

Also write checks on data into the graph while it is traced.

Torch's own pass runs after the trace. It leaves out bounds of floats and every condition that it has no operator for,
and by then a number without other users is gone. So each check is recorded where it is made, computed as Python wrote
it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch

from shapeproof.constraints.formulas import Formula, negate
from shapeproof.constraints.records.decisions import SourceLocation
from shapeproof.export.shim.callers import sentence
from shapeproof.export.shim.numbers.symbols import ASSERTION, recorded
from shapeproof.export.shim.replaced import replaced
from shapeproof.export.source.frames import Place
from shapeproof.export.source.names import message_of
from shapeproof.export.trace.trial import Step, Trial
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import implied, truth
from shapeproof.wording import line_text


@dataclass(frozen=True, slots=True)
class Raising:
    """The exception on one side of a branch, the asking line of the model, and the path conditions before it."""

    text: str
    where: SourceLocation | None
    given: tuple[Formula, ...]


Raisings = dict[Formula, list[Raising]]
"""Known exceptions, by the formula that holds on the side that does not raise."""


def note(known: Raisings, step: Step, there: Trial, domain: Facts, text: str) -> None:
    """Note that a trace of the other side of a step raised, without any decision in that trace.

    Where a decision answered questions that was forgotten, the trace speaks for its own part of the domain alone.
    """
    side = domain.assuming(step.flipped)
    asked = [formula for formula in there.questions.answered if truth(formula, side).always is None]
    answers = [there.settled(formula) for formula in asked]
    if None in answers:
        given = tuple(formula for formula in there.known.formulas if truth(formula, side).always is not True)
    else:
        given = tuple(formula if answer else negate(formula) for formula, answer in zip(asked, answers, strict=True))
    taken = step.decision.taken
    known[taken] = [*known.get(taken, ()), Raising(text, step.decision.where, given)]  # trials keep the list before


def side_that_raises(
    trial: Trial, formula: Formula, place: Callable[[], Place], *, failing: bool | None
) -> tuple[bool | None, str]:
    """Return the answer to a question about data that makes the model raise, and the text; None if there is none.

    `failing` is the answer that fails the assert statement which asks, if an assert statement asks.
    """
    if failing is not None:
        return failing, ""
    for side in (False, True):
        holding = negate(formula) if side else formula
        found = _raised(trial, holding, place) if holding in trial.raising else None
        if found is not None:
            return side, found.text
    return None, ""


def _raised(trial: Trial, holding: Formula, place: Callable[[], Place]) -> Raising | None:
    """Return the exception of the model where `holding` is false, asked at the present line, if it is known."""
    here, side = place().user, trial.region.assuming(negate(holding))
    return next(
        (
            each
            for each in trial.raising[holding]
            if each.where == here and all(implied(formula, side) for formula in each.given)
        ),
        None,
    )


def message_at(user: SourceLocation | None, formula: Formula) -> str:
    """Return the message of a check: the user's own sentence, else the source line, else the formula."""
    written = sentence() or (user and message_of(user.text))
    return written or (f"does not hold at {line_text(user)}: {user.text}" if user else str(formula))


class CheckWriter:
    """Holds the checks that are not in the graph yet: a check made inside an operator is written after the operator.

    `is_recording` tells whether torch records calls at present.
    """

    def __init__(self, is_recording: Callable[[], bool]) -> None:
        self._is_recording = is_recording
        self._unwritten: list[tuple[torch.SymBool, str]] = []
        self.writing = False
        """True while an assertion is being recorded: its condition is known, and is not asked about again."""

    def add(self, condition: torch.SymBool, message: str) -> None:
        """Add a check."""
        self._unwritten.append((condition, message))

    def write(self) -> None:
        """Record the added checks, if torch records."""
        if self.writing or not self._unwritten or not self._is_recording():
            return
        unwritten, self._unwritten = self._unwritten, []
        with replaced(self, writing=True):
            for condition, message in unwritten:
                ASSERTION(recorded(condition), message)

    def drop(self) -> None:
        """Drop the unwritten checks at the end of a body, where they have no place; the closing audit misses them."""
        self._unwritten.clear()

    def apart(self) -> AbstractContextManager[None]:
        """Inside this block, checks belong to another program and are not written here."""
        return replaced(self, _unwritten=[])
