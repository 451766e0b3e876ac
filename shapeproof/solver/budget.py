"""How much work one question may cost, and how much a run has cost so far.

Work is counted, never timed: Z3's own resource counter and points tried, so that the same question gets the same
answer on a slow machine. This module imports nothing, so that naming a budget costs nothing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Budget:
    """What one question may spend before the answer is `undecided`.

    >>> Budget(rlimit=1_000).rlimit
    1000
    """

    rlimit: int = 3_000_000
    """Z3's resource counter for one question; about seven million a second on a laptop of 2025."""
    exhaustion_points: int = 2**22
    """A question whose whole box has at most so many points may be settled by trying them all."""


@dataclass(slots=True)
class Ledger:
    """What a run asked and spent: one is shared by a Facts and everything forked from it.

    >>> ledger = Ledger()
    >>> ledger.note("intervals", "proved")
    >>> ledger.answers
    Counter({('intervals', 'proved'): 1})
    """

    answers: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(step, status) -> how many questions that step answered so."""
    rlimit: int = 0
    """Z3's resource counter, summed over every query."""
    queries: int = 0
    """How many times Z3 was asked."""
    points: int = 0
    """How many points exhaustion tried."""

    def note(self, step: str, status: str) -> None:
        """Count one answer."""
        self.answers[step, status] += 1
