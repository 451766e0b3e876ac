"""How much work one question may cost, what is left of that, and what a run has asked and spent so far.

Work is counted, never timed: Z3's own resource counter, points tried, and the steps of everything else, so that the
same run gets the same answers on a slow machine. This module loads neither terms nor Z3, so that naming a budget costs
nothing.

Law: whatever is asked ends within its budget. A question opens an allowance (`spending`), every loop beneath it charges
the innermost one, and what is asked on the way gets no more than what is left around it. A task of many questions,
such as a repair, opens an allowance of several budgets in the same way, and makes do with what it has when that is
used up.
"""

from __future__ import annotations

import logging
from collections import Counter
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.work import Meter, current_meter, metered

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shapeproof.constraints.formulas import Formula
    from shapeproof.constraints.verdicts import Verdict
    from shapeproof.solver.history import History


_QUESTIONS_OF_A_TASK = 8
_LONGEST_LOGGED = 500
_QUESTIONS = logging.getLogger("shapeproof.questions")
"""Each question with its answer, at the level DEBUG."""


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
    work: int = 2**22
    """Steps of all but Z3: monomials made, nodes rewritten, points evaluated; some hundred thousand a second."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            limit = getattr(self, name)
            if not isinstance(limit, int) or limit < 0:
                raise UsageError(f"{name} of a Budget must be an integer of at least 0, not {limit!r}")

    def part(self, share: float) -> Budget:
        """So many times this; less than one for a part of a question, more for a task of many questions."""
        return Budget(*(int(getattr(self, name) * share) for name in self.__slots__))

    @property
    def for_a_task(self) -> Budget:
        """What a task of many questions may spend: a repair, say, or finding the smallest point."""
        return self.part(_QUESTIONS_OF_A_TASK)

    def without(self, rlimit: int, points: int) -> Budget:
        """What is left when so much of Z3's counter was spent, and so many points tried."""
        left = max(0, self.rlimit - rlimit), max(0, self.exhaustion_points - points)
        return replace(self, rlimit=left[0], exhaustion_points=left[1])


class Allowance(Meter):
    """What is left of a budget."""

    __slots__ = ("points", "rlimit")

    def __init__(self, budget: Budget) -> None:
        super().__init__(budget.work)
        self.rlimit = budget.rlimit
        self.points = budget.exhaustion_points

    def of(self, budget: Budget) -> Allowance:
        """No more than the budget, and no more than what is left of this."""
        limits = (self.rlimit, budget.rlimit), (self.points, budget.exhaustion_points), (self.left, budget.work)
        return Allowance(Budget(*(max(0, min(pair)) for pair in limits)))


def current_allowance() -> Allowance | None:
    """The innermost allowance of the block that runs."""
    meter = current_meter()
    return meter if isinstance(meter, Allowance) else None


def is_affordable(budget: Budget) -> bool:
    """Whether as much as the budget is left around; if not, what is not found may be found where more is left."""
    outer = current_allowance()
    return outer is None or (outer.rlimit >= budget.rlimit and outer.points >= budget.exhaustion_points)


@contextmanager
def spending(budget: Budget) -> Iterator[Allowance]:
    """What is done inside the block comes to no more than the budget, nor to more than what is left around it.

    >>> from shapeproof.constraints.work import charge
    >>> with spending(Budget(work=10)) as allowance:
    ...     charge(4)
    ...     allowance.left
    6
    """
    outer = current_allowance()
    allowance = Allowance(budget) if outer is None else outer.of(budget)
    rlimit, points = allowance.rlimit, allowance.points
    try:
        with metered(allowance):
            yield allowance
    finally:
        if outer is not None:
            outer.rlimit -= rlimit - allowance.rlimit
            outer.points -= points - allowance.points


@dataclass(frozen=True, slots=True)
class Entry:
    """One question: does the formula hold wherever these facts do? And the verdict."""

    formula: Formula
    facts: History
    verdict: Verdict

    def __str__(self) -> str:
        """The question and its answer in a line.

        >>> from shapeproof.solver import prove
        >>> with one_ledger() as ledger:
        ...     _ = prove("n % 4 == 0", given=["n % 2 == 0", "n >= 1"])
        >>> print(ledger.entries[0])
        refuted by evaluation at n = 2: n % 4 == 0, given 2 facts
        """
        evidence, witness = self.verdict.evidence, self.verdict.witness
        by = f" by {evidence.step}" if evidence else ""
        at = f" at {', '.join(f'{name} = {value}' for name, value in witness.items())}" if witness else ""
        given = "1 fact" if len(self.facts) == 1 else f"{len(self.facts)} facts"
        return f"{self.verdict.status}{by}{at}: {_cut(str(self.formula))}, given {given}"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_LOGGED else f"{text[:_LONGEST_LOGGED]}..."


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

    def enter(self, formula: Formula, facts: History, verdict: Verdict) -> None:
        """Keep a question with its answer, and log it for whoever listens."""
        self.entries.append(Entry(formula, facts, verdict))
        if _QUESTIONS.isEnabledFor(logging.DEBUG):
            _QUESTIONS.debug("%s", self.entries[-1])

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
