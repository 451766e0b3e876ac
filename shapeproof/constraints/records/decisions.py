"""The guards of a trace: each question about sizes, the answer that the trace took, and the code that asked."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal, TypeAlias, get_args

from shapeproof.constraints.formulas import Compare, Formula
from shapeproof.constraints.terms import Symbol, Term


class Kind(Enum):
    """The reason for a guard."""

    BRANCH = "branch"
    """Code branched on a size."""
    ASSUMED = "assumed"
    """The tracer assumed an answer that eager does not ask for."""
    ASSERTED = "asserted"
    """Eager raises exactly where the formula fails."""


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A line of a program."""

    file: str
    line: int
    text: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Decision:
    """One guard: the question, the outcome that the trace continued with, the user's line and the framework's line.

    >>> from shapeproof.constraints.syntax.text import parse_formula
    >>> Decision(parse_formula("b == 1"), Kind.ASSUMED, outcome=False).taken
    b != 1
    """

    formula: Formula
    kind: Kind
    outcome: bool
    where: SourceLocation | None = None
    operator: str | None = None
    framework: SourceLocation | None = None

    @property
    def taken(self) -> Formula:
        """The formula that the trace relies on: the question or its negation."""
        return self.formula if self.outcome else self.formula.negation

    @property
    def equated(self) -> Term | None:
        """The term that equals 0, if the trace takes an equality."""
        return self.taken.term if isinstance(self.taken, Compare) and self.taken.op == "==" else None

    @property
    def leaves_out_a_case(self) -> bool:
        """True if the trace takes an inequality: the other side is a special case (`b == 1`)."""
        return isinstance(self.taken, Compare) and self.taken.op == "!="

    @property
    def pins(self) -> bool:
        """True if the trace takes an equality that may be an accident of its sizes (`b == 1`, `h == w`)."""
        return self.equated is not None and all(isinstance(atom, Symbol) for atom in self.equated.children)

    @property
    def of_the_model(self) -> bool:
        """True if the user's own code branches here.

        The question alone does not tell where else that code takes the same side.
        """
        return self.kind is Kind.BRANCH and self.operator is None and self.where is not None


Settled: TypeAlias = Literal["refuted", "undecided", "from data", "traced", "in place", "follows", "proved"]
"""How a question was settled: by a finding (`refuted`, `undecided`), at run time, by a look at the other answer, by
running the operator that asks again, by another answer (so where that one holds), or for all declared sizes."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question about sizes: what holds of the sizes as it was answered, in the user's names, and the line that asks.

    >>> Question("x.shape[0] >= 1", "proved").settled
    'proved'
    """

    text: str
    settled: Settled
    where: SourceLocation | None = None
    operator: str | None = None

    @property
    def rank(self) -> int:
        """A sort key: the worst first."""
        return get_args(Settled).index(self.settled)
