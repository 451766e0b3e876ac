"""What a trace depended on: each question that was asked about sizes, the answer taken, and who asked. Data only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from shapeproof.constraints.formulas import Formula


class Kind(Enum):
    """Why a decision was made."""

    BRANCH = "branch"
    """Code took a side because of a size."""
    ASSUMED = "assumed"
    """The tracer assumed an answer that eager never asks for."""
    ASSERTED = "asserted"
    """Eager raises exactly where it fails."""


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A line of somebody's program."""

    file: str
    line: int
    text: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Decision:
    """One question, the outcome that the trace went on with, the user's line and the framework's.

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
        """What the trace took to hold."""
        return self.formula if self.outcome else self.formula.negation

    @property
    def of_the_model(self) -> bool:
        """Whether the user's own code takes a side there: where else it takes the same is not in the question."""
        return self.kind is Kind.BRANCH and self.operator is None and self.where is not None
