"""The results of an exploration as data: the cells that the program does not serve, and the cause of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import cast

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import Point, holds_at
from shapeproof.constraints.records.decisions import Decision, Kind, Question, Settled
from shapeproof.constraints.syntax.text import format_formula
from shapeproof.export.explore.beside_eager.forms import Form
from shapeproof.export.explore.beside_eager.runner import Replay
from shapeproof.export.graph.aliasing import observes_aliasing
from shapeproof.export.source.names import rounds
from shapeproof.export.trace.calls.fakes import hides_a_write
from shapeproof.export.trace.trial import Step, Trial
from shapeproof.solver.facts import Facts
from shapeproof.wording import place_text


class Outcome(Enum):
    """The kinds of findings, worst first."""

    RAISES = "eager raises"
    DIFFERS = "the program differs"
    DATA = "depends on data"
    MANY = "too many programs"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Cell:
    """The part of the domain that a finding is about.

    Attributes:
        asked: the question whose other answer leads into it.
        outside: a formula that holds for every declared input outside it.
        answers: answers about data: no input in it gives the program all of them. Empty if sizes tell it.
        unbounded: True if its extent is unknown.
        noted_where: a formula where the sizes that the program notes are right; the rest may be all that differs.
    """

    asked: Formula = f.TRUE
    outside: Formula = f.TRUE
    answers: tuple[Formula, ...] = ()
    unbounded: bool = False
    noted_where: Formula = f.FALSE


@dataclass(frozen=True, slots=True)
class Finding:
    """A cell of the domain that the program does not serve, or is not known to serve."""

    outcome: Outcome
    decision: Decision
    """The question that explains best why the cell is not served."""
    witness: Point | None
    text: str
    cell: Cell = Cell()
    joint: Formula | None = None
    """The whole requirement of the cause, if it is not that of the decision."""
    partly: bool = False
    """True if eager accepts some of the sizes that violate the requirement."""
    by_model: bool = False
    """True if the model's own `raise` or `assert` raises there."""

    @property
    def may_be_another(self) -> bool:
        """True if another program might serve the region: eager may accept it, and sizes distinguish it."""
        sizes_tell = self.cell.outside is not f.TRUE and not self.cell.answers
        return self.outcome in {Outcome.DIFFERS, Outcome.UNDECIDED} and sizes_tell

    @property
    def requirement(self) -> Formula:
        """Return what this decision requires of the sizes that the program serves."""
        return self.decision.taken if self.joint is None else self.joint

    def is_about_another(self, decision: Decision) -> bool:
        """True if the cell is known to fail only where another question gets the other answer; the rest may be served.

        The other question is a check that eager makes elsewhere, or a branch of the model on data.
        """
        if self.decision.taken is decision.taken:
            return False
        return self.outcome is Outcome.DATA or (self.decision.kind is Kind.ASSERTED and self.decision.formula.total)


@dataclass(frozen=True, slots=True)
class Narrowing:
    """A requirement that inferred sizes were narrowed to, and the decision that asked for it."""

    requirement: Formula
    decision: Decision


@dataclass(frozen=True, slots=True)
class SharedFailure:
    """Sizes from data at which eager and the program both raise.

    Attributes:
        condition: the formula that these sizes meet, in the user's names (`boxes.shape[0] == 0`).
        error: the error that eager raises.
        operator: the operator that raises, if known.
        file: the file of the user's line that calls it.
        line: the number of that line.
        source: the place where an unnamed size is taken from data.
    """

    condition: str
    error: str
    operator: str | None = None
    file: str | None = None
    line: int | None = None
    source: str = ""

    def __str__(self) -> str:
        at = f" at {place_text(self.file, self.line)}" if self.file else ""
        by = f" in {self.operator}" if self.operator else ""
        return f"eager and the program both raise where {self.condition}{self.source}{at}{by}: {self.error}"


class Impossible(Exception):
    """No data pass a check of the model at the example's sizes; the trial holds that check."""

    def __init__(self, trial: Trial) -> None:
        super().__init__("a check on data contradicts what is known")
        self.trial = trial


@dataclass(slots=True)
class Traced:
    """One trace: its trial, and the program or the error that stopped the trace."""

    trial: Trial
    program: torch.export.ExportedProgram | None
    error: Exception | None = None

    @property
    def exported(self) -> torch.export.ExportedProgram:
        """The program of a trace that no error stopped, as a main program's."""
        return cast("torch.export.ExportedProgram", self.program)

    @property
    def doubtful(self) -> bool:
        """True if decisions that were discharged where they were made may matter after all.

        They matter if code reads strides that were ignored. They also matter if code mutates, or asks what is what
        (`y is x`, `y._base`), where an operator either shares with its operand or copies it: the tensor remembers which
        of the two happened, so a rerun of the operator does not ask again.
        """
        if self.trial.layouts.doubtful or self.program is None:
            return self.trial.layouts.doubtful
        graph = self.program.graph
        asked = self.trial.layouts.tells_aliases
        return (self.trial.ignores_layouts and observes_aliasing(graph, asked=asked)) or hides_a_write(graph)


@dataclass(slots=True)
class Exploration:
    """The program, and how the whole domain relates to it.

    Attributes:
        forms: the forms in which the program is run beside eager.
        start: the point at which program and eager were first compared: the example, if there is one.
        disagreement: the replay at that point, if the two do not agree.
    """

    main: Traced
    forms: Sequence[Form]
    start: Point
    disagreement: Replay | None = None
    findings: list[Finding] = field(default_factory=list)
    narrowings: list[Narrowing] = field(default_factory=list)
    served: list[Traced] = field(default_factory=list)
    settled_for: bool = False
    """True if inferred sizes were narrowed to something simple without checking what else is served."""
    traces: int = 0
    trusted: dict[str, int] = field(default_factory=dict)
    """The custom operators, each with the number of inputs at which its fake kernel was compared."""
    checked: tuple[str, ...] = ()
    """The custom operators whose every call in the program `check_operator` has proved."""
    notes: list[str] = field(default_factory=list)
    """Further remarks about the program."""
    shared: tuple[SharedFailure, ...] = ()
    """The failures seen in both the program and eager."""

    def add(self, finding: Finding) -> None:
        """Keep one finding per requirement: the worst outcome, then the smallest witness.

        Keep one finding per cause if findings are about data.
        """
        for index, known in enumerate(self.findings):
            if known.requirement is finding.requirement and bool(known.cell.answers) == bool(finding.cell.answers):
                worst = min(known, finding, key=_rank)
                outside = f.conjunction(known.cell.outside, finding.cell.outside)
                cell = replace(worst.cell, outside=outside, answers=known.cell.answers + finding.cell.answers)
                self.findings[index] = replace(worst, cell=cell)
                return
        if finding.outcome is not Outcome.DATA or not self._joined(finding.decision):
            self.findings.append(finding)

    def takes_in(self, decision: Decision) -> bool:
        """True if this is the next iteration of a data-dependent loop already reported; that finding is then extended.

        Another number of iterations is another program, so tracing one would show nothing new.
        """
        return decision.of_the_model and self._joined(decision)

    def known_of_data(self, decision: Decision) -> Finding | None:
        """Return the finding about a branch of the model on data, if its other side has been looked into elsewhere.

        The model is not proved then, whatever other sizes show of that side.
        """
        for known in self.findings:
            same = known.decision.taken is decision.taken and known.decision.where == decision.where
            if same and known.outcome is Outcome.DATA and decision.of_the_model:
                return known
        return None

    def _joined(self, decision: Decision) -> bool:
        """Extend the finding about data that has the same cause by this decision; True if there is such a finding."""
        for index, known in enumerate(self.findings):
            if known.outcome is Outcome.DATA and _one_cause(known.decision, decision):
                joint = f.conjunction(known.requirement, decision.taken)
                self.findings[index] = replace(known, decision=decision, joint=joint)
                return True
        return False

    def take(self, seen: Sequence[Finding | Narrowing]) -> None:
        """Keep findings and narrowings that come from elsewhere than the cells."""
        self.findings += [each for each in seen if isinstance(each, Finding)]
        self.narrowings += [each for each in seen if isinstance(each, Narrowing)]

    @property
    def left_out(self) -> tuple[int, int]:
        """Count what is not served; less is better."""
        return len(self.findings), len(self.narrowings)

    def serves(self, point: Mapping[str, int]) -> bool:
        """True if no finding concerns a point. A program on torch's general path may not serve its traced point."""
        return all(holds_at(finding.cell.outside, point) for finding in self.findings)

    def seen_to_differ(self, decision: Decision) -> Mapping[str, int] | None:
        """Return sizes that a question's other answer led to and at which the program differed from eager, or None."""
        for finding in self.findings:
            witness = finding.witness
            if (
                finding.outcome is Outcome.DIFFERS
                and finding.cell.asked is decision.formula
                and witness is not None
                and decision.formula.symbols <= witness.keys()
                and not holds_at(decision.taken, witness)
            ):
                return witness
        return None

    def wrong_guesses(self) -> frozenset[Formula]:
        """Return questions that the program answered against torch's fallback, where its answer fails in the domain."""
        asked = {finding.cell.asked for finding in self.findings} | {each.decision.formula for each in self.narrowings}
        return frozenset(
            step.decision.formula for step in self.main.trial.steps if step.overrules and step.decision.formula in asked
        )


@dataclass(slots=True)
class Case:
    """A cell, the decision whose other answer leads into it, and the exploration that it is a part of.

    Attributes:
        outside: a formula that holds for every accepted input outside the cell.
        data: True if the decision is about data.
        point: generic sizes in the cell, if the solver finds any.
        whole: the narrowing that excludes the cell, if its sizes are inferred: `excluded` asks.
        closely: True if the part of the cell that the program serves is sought, since a part may be.
    """

    step: Step
    cell: Facts
    found: Exploration
    outside: Formula
    data: bool
    point: Point | None = None
    whole: Narrowing | None = None
    closely: bool = False

    @property
    def decision(self) -> Decision:
        """The question that torch asked, as it was answered."""
        return self.step.decision


def asking(decision: Decision) -> object:
    """Identify the asker of a question: a line of the model, however often it asks, or else the question alone."""
    return decision.where if decision.of_the_model else decision


def _one_cause(known: Decision, later: Decision) -> bool:
    """True if one loop asks both decisions for another iteration, or one operator of the model asks both."""
    if known.where is None or known.where != later.where or known.operator != later.operator:
        return False
    return later.operator is not None or (later.of_the_model and rounds(later.where) is not None)


def _rank(finding: Finding) -> tuple[int, tuple[int, int]]:
    sizes = (finding.witness or {}).values()
    return list(Outcome).index(finding.outcome), (max(sizes, default=0), sum(sizes))


def narrowed(domain: Facts, narrowings: Sequence[Narrowing]) -> Facts:
    """Restrict the domain to the narrowings."""
    return domain.assuming(*(narrowing.requirement for narrowing in narrowings))


def served_part(found: Exploration, domain: Facts) -> Facts | None:
    """Return the part that a program serves by its sizes; None if a finding refutes the program or only data decide."""
    if any(finding.outcome is not Outcome.UNDECIDED or finding.cell.answers for finding in found.findings):
        return None
    return narrowed(domain, found.narrowings).assuming(*(finding.cell.outside for finding in found.findings))


def attributed(finding: Finding, trial: Trial) -> Finding:
    """Attribute a finding to the question that explains it best, among those that its witness answers differently.

    A question about data explains itself, unless the model branches on data and the witness takes the other side. So
    does a branch of the model that leads to its own `raise`, and an assumption of torch's, of several of them.
    """
    witness = finding.witness
    of_itself = finding.by_model or finding.outcome is Outcome.DATA
    if witness is None or (of_itself and finding.decision.of_the_model):
        return finding
    answered = [d for d in _open(trial) if d.formula.symbols <= witness.keys() and not holds_at(d.taken, witness)]
    if finding.outcome is Outcome.DATA:
        answered = [d for d in answered if d.of_the_model and trial.about_data(d.formula)]
    own = finding.decision

    def rank(decision: Decision) -> tuple[int, bool]:
        return _blame(decision, finding.outcome), decision.kind is Kind.ASSUMED and decision.taken is not own.taken

    return replace(finding, decision=min(answered, key=rank, default=own))


def _open(trial: Trial) -> list[Decision]:
    """Return the questions of a trace, but for those that made no difference where they were asked."""
    forgotten = {id(step.decision) for step in trial.harmless}
    asked = {d.formula: d for d in trial.questions.asked.values() if id(d) not in forgotten}
    again = (step.decision for step in trial.steps if step.decision.formula not in asked)
    return [*asked.values(), *again]


def _blame(decision: Decision, outcome: Outcome) -> int:
    """Rank causes: for an error checks first, for another program the user's branches, torch's assumptions last."""
    if decision.kind is Kind.ASSUMED:
        return 3
    if outcome is Outcome.RAISES:
        return 0 if decision.kind is Kind.ASSERTED else 1
    return 0 if decision.of_the_model else 1


def statistics(found: Exploration) -> dict[str, int]:
    """Count how the questions about sizes were settled."""
    trial = found.main.trial
    traced = {step.decision.formula for step in trial.steps}
    in_place = {step.decision.formula for step in trial.harmless} - traced
    return {
        "questions about sizes": len(trial.questions.answered.keys() | traced | in_place),
        "answered by the domain": len(trial.questions.answered.keys() - traced - in_place),
        "settled in place": len(in_place),
        "left to be traced": len(traced),
        "regions": 1 + len(found.served),
        "traces": found.traces,
    }


def questions(found: Exploration, names: Mapping[str, str], beside: Sequence[Finding] = ()) -> tuple[Question, ...]:
    """Return the questions of the program's trace, each with how it was settled: by a finding, or one `beside` these.

    Law: what is `proved` holds at all sizes of the trace's domain.
    """
    trial = found.main.trial
    findings = (*found.findings, *beside)
    answered, named = trial.questions.answered.values(), trial.questions.names
    checks = [
        Question(_in_names(each.formula, names, named), "from data", each.place.user, each.place.operator)
        for each in trial.learned.checks
    ]
    ways: tuple[tuple[Settled, Iterable[Decision]], ...] = (
        *(("follows" if each.formula in trial.questions.relative else "proved", (each,)) for each in answered),
        ("in place", (step.decision for step in trial.harmless)),
        ("traced", (step.decision for step in trial.steps)),
        *(("undecided" if each.outcome is Outcome.UNDECIDED else "refuted", (each.decision,)) for each in findings),
    )
    settled = {decision.formula: (decision, how) for how, decisions in ways for decision in decisions}
    return *checks, *(
        Question(_in_names(decision.taken, names, named), how, decision.where, decision.operator)
        for decision, how in settled.values()
        if decision.formula.symbols
    )


def questions_of_several(regions: Sequence[tuple[Question, ...]]) -> tuple[Question, ...]:
    """Return the questions of the traces of several regions, each as it was settled worst: proved is proved in all."""
    everywhere = set[Question]().union(*regions).intersection(*regions)
    every = [
        each if each.settled != "proved" or each in everywhere else replace(each, settled="follows")
        for region in regions
        for each in region
    ]
    worst = {(each.text, each.where): each for each in sorted(every, key=lambda each: -each.rank)}
    return tuple(dict.fromkeys(worst[each.text, each.where] for each in every))


def refuted_sizes(findings: Iterable[Finding]) -> tuple[Formula, ...]:
    """Return the sizes of each finding that refutes them, as a formula; data and what is undecided tell no sizes."""
    about_sizes = (each for each in findings if each.outcome not in {Outcome.DATA, Outcome.UNDECIDED})
    return tuple(f.negate(each.requirement) for each in about_sizes)


def _in_names(formula: Formula, names: Mapping[str, str], named: Mapping[Formula, Mapping[str, str]]) -> str:
    """Return a formula in the user's names, with those at the line that asks."""
    here = named.get(formula) or named.get(formula.negation, {})
    return format_formula(formula, rename={**names, **here})
