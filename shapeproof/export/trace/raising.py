"""A branch on data with a side that raises is a check, wherever the branch is the same one and that side raises, too.

Nothing is traced here. What was seen to raise did so in one part of the domain: what was asked there, and is not
answered alike in all of it, must be answered so where the branch is to be a check.
"""

from __future__ import annotations

from dataclasses import dataclass

from shapeproof.constraints.decisions import SourceLocation
from shapeproof.constraints.formulas import Formula, negate
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


def raised(known: Raisings, trial: Trial, holding: Formula, where: SourceLocation | None) -> Raising | None:
    """What the model raises where this does not hold, asked at that line of it; None where that is not known."""
    found = [each for each in known.get(holding, ()) if each.where == where]
    side = _on(negate(holding), trial.region) if found else trial.region
    return next((each for each in found if all(truth(formula, side).always is True for formula in each.given)), None)


def _on(formula: Formula, known: Facts) -> Facts:
    side = known.fork()
    side.learn(formula)
    return side
