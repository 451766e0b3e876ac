"""The budget of one question, and the allowance that is left of it.

Work is counted, not timed: Z3's resource counter, points tried, and steps of everything else. So a run gives the same
answers on a slow machine. This module loads neither terms nor Z3, so that creating a Budget is cheap.

Law: every question ends within its budget. A question opens an allowance (`spending`); every loop charges the innermost
allowance; a nested question gets at most what is left of the allowance around it. A task of many questions, such as a
repair, opens an allowance of several budgets in the same way, and returns what it has when the allowance is used up.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.work import Meter, OutOfWork, charge, current_meter, metered

_QUESTIONS_OF_A_TASK = 8


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of one question; beyond them the answer is `undecided`.

    >>> Budget(rlimit=1_000).rlimit
    1000
    """

    rlimit: int = 3_000_000
    """The limit on Z3's resource counter for one question; Z3 counts about 7 million a second on a laptop of 2025."""
    exhaustion_points: int = 2**22
    """A box of at most this many points may be decided by trying every point."""
    work: int = 2**22
    """The limit on all other steps (monomials made, nodes rewritten, points evaluated); some 100,000 a second."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            limit = getattr(self, name)
            if not isinstance(limit, int) or limit < 0:
                raise UsageError(f"{name} of a Budget must be an integer of at least 0, not {limit!r}")

    def part(self, share: float) -> Budget:
        """Return this budget times `share`: below 1 for a part of a question, above 1 for a task of many questions."""
        return Budget(*(int(getattr(self, name) * share) for name in self.__slots__))

    @property
    def for_a_task(self) -> Budget:
        """The budget of a task of many questions, such as a repair or the search for the smallest point."""
        return self.part(_QUESTIONS_OF_A_TASK)

    def without(self, rlimit: int, points: int) -> Budget:
        """Return the budget minus this much of Z3's counter and this many points."""
        left = max(0, self.rlimit - rlimit), max(0, self.exhaustion_points - points)
        return replace(self, rlimit=left[0], exhaustion_points=left[1])


class Allowance(Meter):
    """The rest of a budget."""

    __slots__ = ("points", "rlimit")

    def __init__(self, budget: Budget) -> None:
        super().__init__(budget.work)
        self.rlimit = budget.rlimit
        self.points = budget.exhaustion_points

    def of(self, budget: Budget) -> Allowance:
        """Return a new allowance: at most the budget, and at most what is left of this allowance."""
        limits = (self.rlimit, budget.rlimit), (self.points, budget.exhaustion_points), (self.left, budget.work)
        return Allowance(Budget(*(max(0, min(pair)) for pair in limits)))


def current_allowance() -> Allowance | None:
    """Return the innermost open allowance, or None."""
    meter = current_meter()
    return meter if isinstance(meter, Allowance) else None


def is_affordable(budget: Budget) -> bool:
    """True if the open allowance still covers the budget.

    If it does not, an undecided answer is not final: a larger allowance may decide the question.
    """
    outer = current_allowance()
    return outer is None or (outer.rlimit >= budget.rlimit and outer.points >= budget.exhaustion_points)


@contextmanager
def spending(budget: Budget) -> Iterator[Allowance]:
    """Limit the work inside the block to the budget, and to what is left of the allowance around the block.

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


@contextmanager
def until_spent(budget: Budget) -> Iterator[Allowance]:
    """Limit the work as `spending` does. If the budget is used up, the block ends there, and what it has is kept.

    >>> from shapeproof.constraints.work import charge
    >>> done = []
    >>> with until_spent(Budget(work=10)):
    ...     for step in range(9):
    ...         charge(4)
    ...         done.append(step)
    >>> done
    [0, 1]

    Raises:
        OutOfWork: the allowance around the block is used up, too.
    """
    try:
        with spending(budget) as allowance:
            yield allowance
    except OutOfWork:
        charge(0)
