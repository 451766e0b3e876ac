"""What a trial records beside its decisions: questions that its facts leave open, facts that it met, and layouts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.records.decisions import Decision
from shapeproof.constraints.terms import Term
from shapeproof.export.source.frames import Place
from shapeproof.solver.facts import Facts

if TYPE_CHECKING:
    from shapeproof.export.trace.trial import Step


@dataclass(slots=True)
class Questions:
    """The questions that the facts of a trace leave open, with the user's names; findings' causes are among them."""

    asked: dict[Formula, Decision] = field(default_factory=dict)
    """Each question with its answer. The user's own line takes precedence over an assumption of torch."""
    names: dict[Formula, Mapping[str, str]] = field(default_factory=dict)
    """The user's names for the symbols of a question, at the line that asks."""
    learned_before: dict[Formula, int] = field(default_factory=dict)
    """For each question, how many facts the trace had learned when it was asked."""
    answered: dict[Formula, Decision] = field(default_factory=dict)
    """The questions that the region answers, each as it was asked first."""
    relative: set[Formula] = field(default_factory=set)
    """Those of them whose answer may follow from a decision: it is not claimed of every declared size."""
    against: dict[Formula, Decision] = field(default_factory=dict)
    """The questions whose answer from the region differs from torch's fallback."""
    rounds: Counter[Formula] = field(default_factory=Counter)
    """How often a branch of the model asked each question about data."""


@dataclass(slots=True)
class Shared:
    """What trials in parts of one domain have in common."""

    varying: dict[Formula, bool] = field(default_factory=dict)
    """For each question: is it seen to hold at some points of the domain and to fail at others?"""
    views: Facts | None = None
    """The facts that determine how sizes of views are written; None stands for the region."""
    declared: Facts | None = None
    """The declared domain, if it is asked first: what it tells is told to every trace of the model."""


@dataclass(frozen=True, slots=True)
class DataCheck:
    """A check on data that the program makes at run time, as eager does, with its message."""

    formula: Formula
    place: Place
    message: str = ""
    inside: bool = False
    """True if only inputs that enter a body (a branch of torch.cond) make the check."""


@dataclass(slots=True)
class Learned:
    """The facts that a trace met on its way."""

    formulas: list[Formula] = field(default_factory=list)
    """The promises of operators and the checks on data, in order."""
    checks: list[DataCheck] = field(default_factory=list)
    impossible: DataCheck | None = None
    """A check that no data can pass, given the facts."""
    last_check: tuple[int, int] = (0, 0)
    """The numbers of steps and of learned facts when the last check on data had been learned."""

    @property
    def promised(self) -> tuple[Formula, ...]:
        """The promises of operators: the learned formulas that are not checks."""
        checked = {check.formula for check in self.checks}
        return tuple(formula for formula in self.formulas if formula not in checked)


@dataclass(slots=True)
class Layouts:
    """What a trace saw of layouts and sharing, and what it forgot because nothing but these depended on it."""

    forgiving: bool = False
    """True while decisions are forgotten that determine only the layout of a result that is shared or copied."""
    forgotten: dict[Hashable, tuple[Step, ...]] = field(default_factory=dict)
    """These decisions, by the storage of the result."""
    reads: set[str] = field(default_factory=set)
    """The tensor properties other than sizes that the model reads (ops/properties.py); the example answered."""
    sizes_read: dict[tuple[Term, ...], None] = field(default_factory=dict)
    """The sizes of the tensors whose layout the model reads."""
    by_rules: bool = False
    """True if rules gave results: their strides equal eager's except for strides that reach no element."""
    tells_aliases: bool = False
    """True if the model's code may ask, beside its operators, if a tensor is another one or shares its storage."""
    doubtful: bool = False
    """True if forgotten decisions may make a difference after all."""
