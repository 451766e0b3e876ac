"""Cut the part of the domain that a trace leaves out into cells, and describe each cell by formulas.

Sizes distinguish a cell from the rest of the domain, or else data do: the main program takes an answer about data that
no input of the cell gives. A program that asserts that answer rejects the cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.records.decisions import Decision, Kind
from shapeproof.constraints.records.domain import Domain
from shapeproof.export.trace.trial import Step, Trial
from shapeproof.solver.answers.blame import needed, reasons
from shapeproof.solver.facts import Facts


@dataclass(frozen=True, slots=True)
class Cutter:
    """Cuts a declared domain."""

    domain: Domain
    adopted: tuple[Formula, ...] = ()
    """Requirements that inferred sizes were narrowed to before exploring; they do not distinguish cells."""

    def defining(self, cell: Facts) -> list[Formula]:
        """Return the facts about sizes that distinguish a cell from the rest of the domain."""
        declared = {*self.domain.formulas, *self.adopted}
        return [fact for fact in cell.formulas if fact not in declared and not self.domain.about_data(fact)]

    def outside(self, cell: Facts) -> Formula:
        """Return a formula that holds for every declared input outside a cell; FALSE if no size distinguishes it."""
        return f.disjunction(*map(f.negate, self.defining(cell)))

    def beyond(self, trial: Trial) -> list[Formula]:
        """Return formulas whose disjunction holds exactly for the inputs of a cell that a trace does not represent."""
        sizes = [step.decision.taken for step in trial.size_steps]
        kept = reasons([(taken, len(str(taken))) for taken in sizes], trial.known)
        return [f.negate(sizes[index]) for index in sorted(kept)]

    def answers(self, cell: Facts, main: Trial) -> tuple[Formula, ...]:
        """Return an answer about data that the main program takes and no input of the cell gives, if any."""
        known = set(cell.formulas)
        return tuple(taken for taken in self.data_answers(main) if f.negate(taken) in known)[:1]

    def data_answers(self, main: Trial) -> list[Formula]:
        """Return the answers about data that a program takes."""
        return [step.decision.taken for step in main.data_steps]

    def cells(self, trial: Trial, about_data: Sequence[Step]) -> list[tuple[Step, Facts]]:
        """Return what the trace leaves out, cut along the decisions that imply the others.

        Eager's checks come first, so that a cell of torch's assumptions is examined where eager's checks hold. A
        partial formula keeps its place: an earlier decision may be the guard that makes it defined.
        """
        sizes = trial.size_steps
        sizes.sort(key=lambda step: step.decision.kind is Kind.ASSUMED or not step.decision.formula.total)
        base = trial.known.fork()
        cells = []
        for index in needed([(step.decision.taken, _weight(step.decision)) for step in sizes], base):
            cells.append((sizes[index], base.assuming(sizes[index].flipped)))
            base.learn(sizes[index].decision.taken)
        taken = [step.decision.taken for step in sizes]
        return [*cells, *((step, step.given.assuming(*taken, step.flipped)) for step in about_data)]


def _weight(decision: Decision) -> int:
    """Return a weight that prefers the user's own lines, then short formulas."""
    framework = 0 if decision.operator is None else 1000
    return framework + len(str(decision.taken))
