"""One satisfiability question to Z3, over the whole of what it is given, by a fixed sequence of attempts.

The attempts differ in the core of Z3 and in how divisions are written; each decides questions that the others do not.
Cheap ones come first, each with its share of the budget. `unsat` is a proof. A model is only a candidate: functions
without a theory take part in it, so the caller evaluates it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shapeproof.constraints.work import charge
from shapeproof.solver.budget import Allowance, Budget, current_allowance
from shapeproof.solver.smt.lower import Script, script
from shapeproof.solver.smt.session import Answer, Core, Session

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shapeproof.constraints.formulas import Formula
    from shapeproof.solver.ledger import Ledger
    from shapeproof.solver.smt.lower import Bounds


@dataclass(frozen=True, slots=True)
class Attempt:
    """A way to ask, and how much of Z3's resource it may use."""

    core: Core
    quotients: bool
    rlimit: int | None = None
    """At most so much; None for a share of what is left of the budget."""
    share: float = 1.0

    def limit(self, left: int) -> int:
        """How much it may use when so much is left."""
        return int(left * self.share) if self.rlimit is None else min(left, self.rlimit)


QUICK = (Attempt(Core.SMT, quotients=True, rlimit=20_000), Attempt(Core.SMT, quotients=False, rlimit=40_000))
THOROUGH = (Attempt(Core.FULL, quotients=False, share=0.75), Attempt(Core.SMT, quotients=False))
SINGLE = (QUICK[1], Attempt(Core.SMT, quotients=False, share=0.25), Attempt(Core.FULL, quotients=False))
"""For a script as it stands. Parts of the full core look at a clock, so what needs it may be open on a busy machine."""

_LONGEST_SCRIPT = 2**20
"""Z3 counts nothing while it reads, so it is not given more characters than this."""


@dataclass(frozen=True, slots=True)
class Found:
    """Z3's answer, the candidate that goes with `sat`, and what it cost."""

    answer: Answer
    model: dict[str, int] | None
    spent: int
    exact: bool = False
    """Whether Z3 was told all that the formulas say, functions without a meaning included: then `sat` is sure."""


def satisfy(
    formulas: Iterable[Formula],
    bounds: Bounds | None,
    budget: Budget,
    ledger: Ledger,
    attempts: Sequence[Attempt] = (*QUICK, *THOROUGH),
) -> Found:
    """Is there a point at which all the formulas hold? The budget is the allowance that is open, if there is one."""
    asked = tuple(dict.fromkeys(formulas))
    allowance = current_allowance() or Allowance(budget)
    left = allowance.rlimit
    scripts: dict[bool, Script] = {}
    spent = 0
    for attempt in attempts:
        rlimit = attempt.limit(left - spent)
        if rlimit <= 0:
            break
        if attempt.quotients not in scripts:
            scripts[attempt.quotients] = script(asked, bounds, quotients=attempt.quotients)
        chosen = scripts[attempt.quotients]
        if len(chosen.text) > _LONGEST_SCRIPT or chosen.weight is None:
            continue
        charge(len(chosen.text))
        found = _attempt(attempt, chosen, rlimit // chosen.weight)
        spent += found.spent * chosen.weight
        allowance.rlimit -= found.spent * chosen.weight
        ledger.queries += 1
        ledger.rlimit += found.spent
        if found.answer is not Answer.UNKNOWN:
            return Found(found.answer, found.model, spent, scripts[attempt.quotients].exact)
    return Found(Answer.UNKNOWN, None, spent)


def solve_script(text: str, budget: Budget) -> Answer:
    """Z3's answer to an SMT-LIB script as it stands."""
    left = budget.rlimit
    for attempt in SINGLE:
        session = Session(text, attempt.core)
        answer = session.check(attempt.limit(left))
        left -= session.spent
        if answer is not Answer.UNKNOWN or left <= 0:
            return answer
    return Answer.UNKNOWN


def _attempt(attempt: Attempt, asked: Script, rlimit: int) -> Found:
    session = Session(asked.text, attempt.core)
    answer = session.check(rlimit)
    model = _model(session, asked) if answer is Answer.SAT else None
    return Found(answer, model, session.spent)


def _model(session: Session, asked: Script) -> dict[str, int]:
    integers = session.integers(asked.integers.values())
    booleans = session.booleans(asked.booleans.values())
    model = {name: integers[constant] for name, constant in asked.integers.items()}
    return model | {name: int(booleans[constant]) for name, constant in asked.booleans.items()}
