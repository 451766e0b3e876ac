"""Cuts what a trace leaves out into cells, and says what tells a cell from the rest of the domain.

A cell is told apart by sizes, or else by what data say there: an answer that the main program takes and no input of the
cell does. A program that asserts that answer refuses the cell. Nothing is traced or judged here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.records.decisions import Decision, Kind
from shapeproof.constraints.records.domain import Domain
from shapeproof.export.trace.trial import Step, Trial, flipped
from shapeproof.solver.answers.blame import needed, reasons
from shapeproof.solver.budget import Budget
from shapeproof.solver.facts import Facts


@dataclass(frozen=True, slots=True)
class Cutter:
    """Cuts a declared domain; `budget` is what one solver question may cost."""

    domain: Domain
    budget: Budget
    adopted: tuple[Formula, ...] = ()
    """What inferred sizes were given up to beforehand: it sets no cell apart."""

    def is_data(self, name: str) -> bool:
        """Whether a symbol stands for a number from data, and not for a declared size."""
        return name not in self.domain.symbols

    def about_data(self, formula: Formula) -> bool:
        """Whether a formula speaks of data."""
        return any(map(self.is_data, formula.symbols))

    def defining(self, cell: Facts) -> list[Formula]:
        """The facts about sizes that set a cell apart from the rest of the domain."""
        declared = {*self.domain.formulas, *self.adopted}
        return [fact for fact in cell.formulas if fact not in declared and not self.about_data(fact)]

    def outside(self, cell: Facts) -> Formula:
        """What holds of every declared input outside a cell; FALSE where no size sets it apart."""
        return f.disjunction(*map(f.negate, self.defining(cell)))

    def beyond(self, trial: Trial) -> list[Formula]:
        """Of which one holds just where an input of a cell is not in the part of it that a trace stands for."""
        sizes = [step.decision.taken for step in trial.steps if not self.about_data(step.decision.formula)]
        kept = reasons([(taken, len(str(taken))) for taken in sizes], trial.known, self.budget)
        return [f.negate(sizes[index]) for index in sorted(kept)]

    def answers(self, cell: Facts, main: Trial) -> tuple[Formula, ...]:
        """An answer about data that the main program takes and no input of a cell does, if there is one."""
        known = set(cell.formulas)
        return tuple(taken for taken in self.data_answers(main) if f.negate(taken) in known)[:1]

    def data_answers(self, main: Trial) -> list[Formula]:
        """What a program takes data to say."""
        return [step.decision.taken for step in main.steps if self.about_data(step.decision.formula)]

    def cells(self, trial: Trial, about_data: Sequence[Step]) -> list[tuple[Step, Facts]]:
        """What the trace leaves out, cut along the decisions that imply the others.

        What eager asks comes first, so that a cell of torch's assumptions is looked at where eager's checks hold. What
        may raise keeps its place: an earlier decision may be what makes it defined.
        """
        sizes = [step for step in trial.steps if not self.about_data(step.decision.formula)]
        sizes.sort(key=lambda step: step.decision.kind is Kind.ASSUMED or not step.decision.formula.total)
        base = trial.known.fork()
        cells = []
        for index in needed([(step.decision.taken, _weight(step.decision)) for step in sizes], base, self.budget):
            cells.append((sizes[index], base.assuming(flipped(sizes[index]))))
            base.learn(sizes[index].decision.taken)
        taken = [step.decision.taken for step in sizes]
        return [*cells, *((step, step.given.assuming(*taken, flipped(step))) for step in about_data)]


def _weight(decision: Decision) -> int:
    """Reasons are sought among the user's own lines first, then among short formulas."""
    framework = 0 if decision.operator is None else 1000
    return framework + len(str(decision.taken))
