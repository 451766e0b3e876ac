"""A branch on data with a side that raises is a check, wherever the branch is the same one and that side raises, too.

Nothing is traced here. What was seen to raise did so in one part of the domain: what was asked there, and is not
answered alike in all of it, must be answered so where the branch is to be a check.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shapeproof.constraints.formulas import Formula, negate
from shapeproof.constraints.records.decisions import SourceLocation
from shapeproof.export.source.places import Place
from shapeproof.export.trace.trial import Step, Trial, flipped
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import truth


@dataclass(frozen=True, slots=True)
class Raising:
    """What the model raises on one side of a branch, at which of its lines it asks, and what else led there."""

    text: str
    where: SourceLocation | None
    given: tuple[Formula, ...]


Raisings = dict[Formula, list[Raising]]
"""By what holds on the side that does not raise."""


def note(known: Raisings, step: Step, there: Trial, domain: Facts, text: str) -> None:
    """A trace of the other side of a step, with no decision of its own, has raised."""
    side = _on(flipped(step), domain)
    asked = [formula for formula in there.answered if truth(formula, side).always is None]
    given = tuple(formula if there.settled(formula) else negate(formula) for formula in asked)
    known.setdefault(step.decision.taken, []).append(Raising(text, step.decision.where, given))


def side_that_raises(
    trial: Trial, formula: Formula, place: Callable[[], Place], *, failing: bool | None
) -> tuple[bool | None, str]:
    """Which answer to a question about data leads the model to raise, and what; None where neither is known to.

    `failing` is the answer with which the assert statement fails that asks, if one does.
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
    """What the model raises where this does not hold, asked at that line of it; None where that is not known."""
    here, side = place().user, _on(negate(holding), trial.region)
    return next(
        (
            each
            for each in trial.raising[holding]
            if each.where == here and all(truth(formula, side).always is True for formula in each.given)
        ),
        None,
    )


def _on(formula: Formula, known: Facts) -> Facts:
    side = known.fork()
    side.learn(formula)
    return side
