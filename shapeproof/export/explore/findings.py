"""What an exploration found, as data: which cells of the domain the program does not serve, and what explains each.

Nothing is traced or decided here, and nothing is worded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import holds_at
from shapeproof.constraints.records.decisions import Decision, Kind
from shapeproof.export.explore.beside_eager.replay import Form, Replay
from shapeproof.export.graph.aliasing import told_apart
from shapeproof.export.source.loops import rounds
from shapeproof.export.trace.trial import Trial
from shapeproof.solver.facts import Facts
from shapeproof.wording import short


class Outcome(Enum):
    """What a finding is, the worst first."""

    RAISES = "eager raises"
    DIFFERS = "the program differs"
    DATA = "depends on data"
    MANY = "too many programs"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Finding:
    """A cell of the domain that the program does not serve, or is not known to serve."""

    outcome: Outcome
    decision: Decision
    witness: dict[str, int] | None
    text: str
    asked: Formula = f.TRUE
    """The question whose other answer leads here; `decision` is the one that explains it best."""
    served: Formula = f.TRUE
    """What holds of every declared input outside the region that this is about."""
    unbounded: bool = False
    """Whether nothing is known of where that region ends."""
    same_where: Formula = f.FALSE
    """Where the program is the same although the decision is otherwise."""
    answers: tuple[Formula, ...] = ()
    """Answers about data: no input that gives them all to the program is in the region. Empty where sizes tell it."""
    partly: bool = False
    """Whether eager takes some of the sizes at which the requirement does not hold."""
    joint: Formula | None = None
    """What the cause asks for as a whole, where it asks for more than the decision."""

    @property
    def may_be_another(self) -> bool:
        """Whether another program might serve there: eager does, as far as is known, and sizes tell where."""
        sizes_tell = self.served is not f.TRUE and not self.answers
        return self.outcome in {Outcome.DIFFERS, Outcome.UNDECIDED} and sizes_tell

    @property
    def requirement(self) -> Formula:
        """What holds of the sizes that the program does serve, as far as this decision goes."""
        return f.disjunction(self.decision.taken, self.same_where) if self.joint is None else self.joint

    def is_about_another(self, decision: Decision) -> bool:
        """Whether a cell is only known to fail where another question is answered otherwise: the rest may be served.

        That other is a check that eager makes elsewhere, or a branch of the model on data.
        """
        if self.decision.taken is decision.taken:
            return False
        return self.outcome is Outcome.DATA or (self.decision.kind is Kind.ASSERTED and self.decision.formula.total)


@dataclass(frozen=True, slots=True)
class Narrowing:
    """A requirement on inferred sizes that the program was given up to, and the decision that asked for it."""

    requirement: Formula
    decision: Decision


@dataclass(frozen=True, slots=True)
class SharedFailure:
    """Where eager and the program both raise, by sizes that come out of data.

    Attributes:
        condition: what holds of these sizes, in the user's names (`boxes.shape[0] == 0`).
        error: what eager raises.
        operator: the operator that raises, if it is known.
        file: of the user's line that calls it.
        line: its number.
        source: where a size without a name is taken from data.
    """

    condition: str
    error: str
    operator: str | None = None
    file: str | None = None
    line: int | None = None
    source: str = ""

    def __str__(self) -> str:
        at = f" at {short(self.file)}:{self.line}" if self.file else ""
        by = f" in {self.operator}" if self.operator else ""
        return f"eager and the program both raise where {self.condition}{self.source}{at}{by}: {self.error}"


class Impossible(Exception):  # noqa: N818 - what it says is what is the matter
    """No data pass a check of the model, at the example's sizes; the trial says which."""

    def __init__(self, trial: Trial) -> None:
        super().__init__("a check on data contradicts what is known")
        self.trial = trial


@dataclass(slots=True)
class Traced:
    """One trace: what it knew and was asked, and the program, or what stopped it."""

    trial: Trial
    program: torch.export.ExportedProgram | None
    error: Exception | None = None

    @property
    def doubtful(self) -> bool:
        """Whether what was found harmless where it was asked may not be.

        Code reads strides that were passed over, or writes where an operator shares with its operand or copies it:
        which of the two it does, a tensor remembers, so that an operator that is run again does not ask anew.
        """
        passed_over = bool(self.trial.harmless) or self.trial.passed_over
        told = passed_over and self.program is not None and told_apart(self.program.graph)
        return self.trial.doubtful or told


@dataclass(slots=True)
class Exploration:
    """The program, and how the whole domain relates to it.

    Attributes:
        forms: the program as it is run beside eager.
        begun: the point at which the program was first run beside eager: the example, if there is one.
        disagreement: what was seen there, if they do not agree.
    """

    main: Traced
    forms: Sequence[Form]
    begun: dict[str, int]
    disagreement: Replay | None = None
    findings: list[Finding] = field(default_factory=list)
    narrowings: list[Narrowing] = field(default_factory=list)
    served: list[Traced] = field(default_factory=list)
    settled_for: bool = False
    """Whether inferred sizes were given up to something simple without a look at what else is served."""
    traces: int = 0
    trusted: dict[str, int] = field(default_factory=dict)
    """The operators that are not torch's own, and at how many inputs their fake kernels were compared."""
    checked: tuple[str, ...] = ()
    """Those of them that `check_operator` has proved for all the calls of the program."""
    notes: list[str] = field(default_factory=list)
    """What else is to be said of the program."""
    shared: tuple[SharedFailure, ...] = ()
    """What the program and eager are seen to raise both."""

    def add(self, finding: Finding) -> None:
        """Keep one finding for each requirement: the worst outcome, then the smallest witness, speaks for all.

        Of those about data keep one for each cause.
        """
        for index, known in enumerate(self.findings):
            if known.requirement is finding.requirement and bool(known.answers) == bool(finding.answers):
                worst = min(known, finding, key=_rank)
                served = f.conjunction(known.served, finding.served)
                self.findings[index] = replace(worst, served=served, answers=known.answers + finding.answers)
                return
        if finding.outcome is not Outcome.DATA or not self._joined(finding.decision):
            self.findings.append(finding)

    def takes_in(self, decision: Decision) -> bool:
        """Whether a loop over data asks for its next round, which a finding about an earlier one now speaks for, too.

        Another number of rounds is another program, so nothing is traced to see it.
        """
        return decision.of_the_model and self._joined(decision)

    def _joined(self, decision: Decision) -> bool:
        """Whether a finding about data has the same cause, which now asks for this decision, too."""
        for index, known in enumerate(self.findings):
            if known.outcome is Outcome.DATA and _one_cause(known.decision, decision):
                joint = f.conjunction(known.requirement, decision.taken)
                self.findings[index] = replace(known, decision=decision, joint=joint)
                return True
        return False

    def take(self, seen: Sequence[Finding | Narrowing]) -> None:
        """Keep what was seen apart from the cells."""
        self.findings += [each for each in seen if isinstance(each, Finding)]
        self.narrowings += [each for each in seen if isinstance(each, Narrowing)]

    @property
    def left_out(self) -> tuple[int, int]:
        """How much is not served: less is better."""
        return len(self.findings), len(self.narrowings)

    def serves(self, point: Mapping[str, int]) -> bool:
        """Whether no finding is about the sizes at a point; torch's general path may not serve where it was traced."""
        return all(holds_at(finding.served, point) for finding in self.findings)

    def wrong_guesses(self) -> frozenset[Formula]:
        """Questions that the program answered against torch's fallback, where that does not serve the domain."""
        asked = {finding.asked for finding in self.findings} | {each.decision.formula for each in self.narrowings}
        return frozenset(
            step.decision.formula
            for step in self.main.trial.steps
            if step.fallback is not None and step.decision.formula in asked and step.decision.outcome != step.fallback
        )


def asking(decision: Decision) -> object:
    """Who asks a question: a line of the model, however often, or else this question alone."""
    return decision.where if decision.of_the_model else decision


def _one_cause(known: Decision, later: Decision) -> bool:
    """Whether a loop asks both for another round, or one operator of the model asks both."""
    if known.where is None or known.where != later.where or known.operator != later.operator:
        return False
    return later.operator is not None or (later.of_the_model and rounds(later.where) is not None)


def _rank(finding: Finding) -> tuple[int, tuple[int, int]]:
    sizes = (finding.witness or {}).values()
    return list(Outcome).index(finding.outcome), (max(sizes, default=0), sum(sizes))


def narrowed(domain: Facts, narrowings: Sequence[Narrowing]) -> Facts:
    """The domain with what was given up left out."""
    return domain.assuming(*(narrowing.requirement for narrowing in narrowings))


def served_part(found: Exploration, domain: Facts) -> Facts | None:
    """The part of a domain that a program is known to serve by its sizes; None where it is refuted or data tell it."""
    if any(finding.outcome is not Outcome.UNDECIDED or finding.answers for finding in found.findings):
        return None
    return narrowed(domain, found.narrowings).assuming(*(finding.served for finding in found.findings))


def attributed(finding: Finding, trial: Trial) -> Finding:
    """The finding, laid to the question, among those that the witness answers otherwise, that best explains it.

    A question about data explains itself, unless the model itself branches on data, and goes the other way there.
    """
    witness = finding.witness
    if witness is None or (finding.outcome is Outcome.DATA and finding.decision.of_the_model):
        return finding
    answered = [
        d for d in trial.asked.values() if d.formula.symbols <= witness.keys() and not holds_at(d.taken, witness)
    ]
    if finding.outcome is Outcome.DATA:
        answered = [d for d in answered if d.of_the_model and trial.about_data(d.formula)]
    best = min(answered, key=lambda decision: _blame(decision, finding.outcome), default=finding.decision)
    return replace(finding, decision=best)


def _blame(decision: Decision, outcome: Outcome) -> int:
    """Who is asked first: for an error a check, for another program the user's own branch, torch's assumptions last."""
    if decision.kind is Kind.ASSUMED:
        return 3
    if outcome is Outcome.RAISES:
        return 0 if decision.kind is Kind.ASSERTED else 1
    return 0 if decision.of_the_model else 1


def statistics(found: Exploration) -> dict[str, int]:
    """How the questions that were asked about sizes have been settled, in numbers."""
    trial = found.main.trial
    traced = {step.decision.formula for step in trial.steps}
    in_place = {step.decision.formula for step in trial.harmless} - traced
    return {
        "questions about sizes": len(trial.answered | traced | in_place),
        "answered by the domain": len(trial.answered - traced - in_place),
        "settled in place": len(in_place),
        "left to be traced": len(traced),
        "regions": 1 + len(found.served),
        "traces": found.traces,
    }
