"""The answers to "does it hold?": Proved, Refuted, Undecided, Vacuous. Law: an answer is a verdict, not a bool or None.

>>> Refuted({"n": 1}, Evidence("evaluation")).status
'refuted'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias

Status: TypeAlias = Literal["proved", "refuted", "undecided", "vacuous"]
Step: TypeAlias = Literal["canonical", "facts", "intervals", "evaluation", "z3", "exhaustion"]


@dataclass(frozen=True, slots=True)
class Evidence:
    """The step of the ladder that answered, and its detail."""

    step: Step
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.step}: {self.detail}" if self.detail else self.step


@dataclass(frozen=True, slots=True)
class Verdict:
    """The base of the four answers."""

    status: ClassVar[Status]

    @property
    def witness(self) -> Mapping[str, int] | None:
        """The values that refute the formula, or None."""
        return None

    @property
    def evidence(self) -> Evidence | None:
        """The justification of the answer, or None for an answer without one."""
        return None


@dataclass(frozen=True, slots=True)
class Proved(Verdict):
    """The formula holds at every point where the facts hold."""

    status: ClassVar[Status] = "proved"
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Refuted(Verdict):
    """The formula fails at `witness`, where all the facts hold."""

    status: ClassVar[Status] = "refuted"
    witness: Mapping[str, int]
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Undecided(Verdict):
    """No step answered within the budget: `reason` says why, and `spent` counts the work."""

    status: ClassVar[Status] = "undecided"
    reason: str
    spent: int = 0


@dataclass(frozen=True, slots=True)
class Vacuous(Verdict):
    """The facts contradict each other, so every formula follows. `core`: an unsat core, if `prove` was asked."""

    status: ClassVar[Status] = "vacuous"
    core: tuple[str, ...] = field(default=())
