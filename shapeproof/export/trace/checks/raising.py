"""Turn a branch on data into a check where the same branch is known to raise on one side.

A side was seen to raise in one part of the domain. The questions asked there may have other answers elsewhere in the
domain. The branch becomes a check only where these questions have the same answers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shapeproof.constraints.formulas import Formula, negate
from shapeproof.constraints.records.decisions import SourceLocation
from shapeproof.export.source.places import Place
from shapeproof.export.trace.records import Step
from shapeproof.export.trace.trial import Trial
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import implied, truth


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
