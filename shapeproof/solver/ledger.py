"""The questions of a run with their answers, and the work that they cost.

The logger `shapeproof.questions` logs each question at level DEBUG. Law: logging changes no answer; its cost is charged
to no allowance.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.records.verdicts import Verdict
from shapeproof.constraints.syntax.printing import number_text
from shapeproof.constraints.work import unmetered
from shapeproof.solver.history import History

_LONGEST_LOGGED = 500
QUESTIONS = logging.getLogger("shapeproof.questions")


@contextmanager
def heard_by(handler: logging.Handler) -> Iterator[None]:
    """Inside this block, each question is logged, and a handler hears it."""
    level = QUESTIONS.level
    QUESTIONS.addHandler(handler)
    QUESTIONS.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        QUESTIONS.setLevel(level)
        QUESTIONS.removeHandler(handler)


@dataclass(frozen=True, slots=True)
class Entry:
    """One question, whether the formula holds wherever these facts do, and the verdict."""

    formula: Formula
    facts: History
    verdict: Verdict

    def __str__(self) -> str:
        """Return the question and its answer as one line.

        >>> from shapeproof.solver import prove
        >>> with one_ledger() as ledger:
        ...     _ = prove("n % 4 == 0", given=["n % 2 == 0", "n >= 1"])
        >>> print(ledger.entries[0])
        refuted by evaluation at n = 2: n % 4 == 0, given 2 facts
        """
        evidence, witness = self.verdict.evidence, self.verdict.witness
        by = f" by {evidence.step}" if evidence else ""
        at = f" at {', '.join(f'{name} = {number_text(value)}' for name, value in witness.items())}" if witness else ""
        given = "1 fact" if len(self.facts) == 1 else f"{len(self.facts)} facts"
        return f"{self.verdict.status}{by}{at}: {_cut(str(self.formula))}, given {given}"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_LOGGED else f"{text[:_LONGEST_LOGGED]}..."


@dataclass(slots=True)
class Ledger:
    """The questions and costs of a run; a Facts and all its forks share one ledger.

    >>> Ledger().spent
    {'questions': 0, 'z3_queries': 0, 'z3_rlimit': 0, 'points': 0}
    """

    rlimit: int = 0
    """Z3's resource counter, summed over all queries."""
    queries: int = 0
    """The number of queries to Z3, among them those that it had answered before."""
    points: int = 0
    """The number of points that exhaustion tried."""
    memo: dict[Hashable, Any] = field(default_factory=dict, repr=False)
    """What tasks and Z3 found, by all that it follows from: smt/ask.py, answers/simplify.py, repair.py."""
    entries: list[Entry] = field(default_factory=list)
    """Every answered question, once for each state of the facts."""

    @property
    def spent(self) -> dict[str, int]:
        """The cost of the run in units of work: the same on every machine."""
        return {
            "questions": len(self.entries),
            "z3_queries": self.queries,
            "z3_rlimit": self.rlimit,
            "points": self.points,
        }

    def enter(self, formula: Formula, facts: History, verdict: Verdict) -> None:
        """Record a question with its answer, and log it."""
        self.entries.append(Entry(formula, facts, verdict))
        if QUESTIONS.isEnabledFor(logging.DEBUG):
            with unmetered():
                QUESTIONS.debug("%s", self.entries[-1])


_open: ContextVar[Ledger | None] = ContextVar("ledger", default=None)


@contextmanager
def one_ledger() -> Iterator[Ledger]:
    """Make all Facts that are created inside the block share one ledger.

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
        ledger.memo.clear()  # a program keeps its facts, and these the ledger


def current_ledger() -> Ledger:
    """Return the ledger of the innermost `one_ledger` block, or a new one."""
    return _open.get() or Ledger()
