"""How much work one question may cost, and what a run has asked and spent so far.

Work is counted, never timed: Z3's own resource counter and points tried, so that the same question gets the same
answer on a slow machine. This module loads neither terms nor Z3, so that naming a budget costs nothing.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shapeproof.constraints.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shapeproof.constraints.formulas import Formula
    from shapeproof.constraints.verdicts import Verdict
    from shapeproof.solver.history import History


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

    def __post_init__(self) -> None:
        for name, limit in (("rlimit", self.rlimit), ("exhaustion_points", self.exhaustion_points)):
            if not isinstance(limit, int) or limit < 0:
                raise UsageError(f"{name} of a Budget must be an integer of at least 0, not {limit!r}")


@dataclass(frozen=True, slots=True)
class Entry:
    """One question: does the formula hold wherever these facts do? And the verdict."""

    formula: Formula
    facts: History
    verdict: Verdict


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
    entries: list[Entry] = field(default_factory=list)
    """Every question that was answered, once for each state of the facts that it was asked of."""

    @property
    def spent(self) -> dict[str, int]:
        """What the run cost, in the units in which work is counted: the same on every machine.

        >>> Ledger().spent
        {'questions': 0, 'z3_queries': 0, 'z3_rlimit': 0, 'points': 0}
        """
        return {
            "questions": len(self.entries),
            "z3_queries": self.queries,
            "z3_rlimit": self.rlimit,
            "points": self.points,
        }

    def note(self, step: str, status: str) -> None:
        """Count one answer."""
        self.answers[step, status] += 1


_open: ContextVar[Ledger | None] = ContextVar("ledger", default=None)


@contextmanager
def one_ledger() -> Iterator[Ledger]:
    """All facts that are made inside the block write into one ledger.

    >>> from shapeproof.solver import prove
    >>> with one_ledger() as ledger:
    ...     prove("n % 2 == 0", given=["n % 4 == 0"]).status, prove("n >= 1", {"n": (0, 9)}).status
    ('proved', 'refuted')
    >>> [str(entry.formula) for entry in ledger.entries]
    ['n % 2 == 0', 'n >= 1']
    """
    ledger = Ledger()
    token = _open.set(ledger)
    try:
        yield ledger
    finally:
        _open.reset(token)


def current_ledger() -> Ledger:
    """The ledger of the innermost `one_ledger` block, or else a new one."""
    return _open.get() or Ledger()
