"""How much work one question may cost, and what is left of that.

Work is counted, never timed: Z3's own resource counter, points tried, and the steps of everything else, so that the
same run gets the same answers on a slow machine. This module loads neither terms nor Z3, so that naming a budget costs
nothing.

Law: whatever is asked ends within its budget. A question opens an allowance (`spending`), every loop beneath it charges
the innermost one, and what is asked on the way gets no more than what is left around it. A task of many questions,
such as a repair, opens an allowance of several budgets in the same way, and makes do with what it has when that is
used up.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.work import Meter, current_meter, metered

if TYPE_CHECKING:
    from collections.abc import Iterator


_QUESTIONS_OF_A_TASK = 8


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
