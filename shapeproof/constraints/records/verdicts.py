"""The answers to "does it hold?": Proved, Refuted, Undecided, Vacuous. Never a bool, and never None.

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
    """Which step of the ladder answered, and what it saw."""

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
        """The values that refute it, or None."""
        return None

    @property
    def evidence(self) -> Evidence | None:
        """What justifies the answer, or None where there is no answer."""
        return None


@dataclass(frozen=True, slots=True)
class Proved(Verdict):
    """It holds at every point where the facts hold."""

    status: ClassVar[Status] = "proved"
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Refuted(Verdict):
    """It fails at `witness`, where all the facts hold."""

    status: ClassVar[Status] = "refuted"
    witness: Mapping[str, int]
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Undecided(Verdict):
    """The budget ran out: `reason` says what was tried, `spent` how much of it."""

    status: ClassVar[Status] = "undecided"
    reason: str
    spent: int = 0


@dataclass(frozen=True, slots=True)
class Vacuous(Verdict):
    """The facts contradict each other, so anything follows: `core` names those that clash."""

    status: ClassVar[Status] = "vacuous"
    core: tuple[str, ...] = field(default=())
