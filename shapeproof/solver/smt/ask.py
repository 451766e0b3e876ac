"""One satisfiability question to Z3, by a fixed sequence of attempts on the whole question.

The attempts differ in Z3's core and in the encoding of divisions; each decides questions that the others cannot. Cheap
attempts come first, each with its share of the budget. `unsat` is a proof. A model is only a candidate, since it may
choose any functions where there is no theory; the caller evaluates it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.work import charge
from shapeproof.solver.budget import Allowance, Budget, current_allowance
from shapeproof.solver.functions.doubles import Bounds
from shapeproof.solver.ledger import Ledger
from shapeproof.solver.smt.lower import Script, script
from shapeproof.solver.smt.session import Answer, Core, Session


@dataclass(frozen=True, slots=True)
class Attempt:
    """One way to ask, and its resource limit."""

    core: Core
    quotients: bool
    rlimit: int | None = None
    """An absolute limit; None for a share of the rest of the budget."""
    share: float = 1.0

    def limit(self, left: int) -> int:
        """Return the attempt's resource limit when `left` remains."""
        return int(left * self.share) if self.rlimit is None else min(left, self.rlimit)


QUICK = (Attempt(Core.SMT, quotients=True, rlimit=20_000), Attempt(Core.SMT, quotients=False, rlimit=40_000))
THOROUGH = (Attempt(Core.FULL, quotients=False, share=0.75), Attempt(Core.SMT, quotients=False))
SINGLE = (QUICK[1], Attempt(Core.SMT, quotients=False, share=0.25), Attempt(Core.FULL, quotients=False))
"""For a given script. The full core partly depends on a clock, so its questions may stay open on a busy machine."""

_LONGEST_SCRIPT = 2**20
"""The most characters of a script: Z3 counts no resources while it parses."""


@dataclass(frozen=True, slots=True)
class Found:
    """Z3's answer, the candidate model for `sat`, and the cost."""

    answer: Answer
    model: dict[str, int] | None
    spent: int
    exact: bool = False
    """True if the script expresses the formulas completely, with uninterpreted functions; then `sat` is certain."""


def satisfy(
    formulas: Iterable[Formula],
    bounds: Bounds | None,
    budget: Budget,
    ledger: Ledger,
    attempts: Sequence[Attempt] = (*QUICK, *THOROUGH),
) -> Found:
    """Ask whether some point satisfies all the formulas. An open allowance takes precedence over `budget`."""
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
        found = _attempt(attempt, chosen, rlimit // chosen.weight, ledger)
        spent += found.spent * chosen.weight
        allowance.rlimit -= found.spent * chosen.weight
        ledger.queries += 1
        ledger.rlimit += found.spent
        if found.answer is not Answer.UNKNOWN:
            return Found(found.answer, found.model, spent, scripts[attempt.quotients].exact)
    return Found(Answer.UNKNOWN, None, spent)


def solve_script(text: str, budget: Budget) -> Answer:
    """Return Z3's answer to a given SMT-LIB script."""
    left = budget.rlimit
    for attempt in SINGLE:
        session = Session(text, attempt.core)
        answer = session.check(attempt.limit(left))
        left -= session.spent
        if answer is not Answer.UNKNOWN or left <= 0:
            return answer
    return Answer.UNKNOWN


def _attempt(attempt: Attempt, asked: Script, rlimit: int, ledger: Ledger) -> Found:
    """Return Z3's answer; a run asks the same question once, and pays for it each time, so costs tell nothing else."""
    names = (*asked.integers.items(), *asked.booleans.items())
    question = (asked.text, names, attempt.core, rlimit)
    if question not in ledger.memo:
        session = Session(asked.text, attempt.core)
        answer = session.check(rlimit)
        model = _model(session, asked) if answer is Answer.SAT else None
        ledger.memo[question] = Found(answer, model, session.spent)
    found: Found = ledger.memo[question]
    return replace(found, model=None if found.model is None else dict(found.model))


def _model(session: Session, asked: Script) -> dict[str, int]:
    integers = session.integers(asked.integers.values())
    booleans = session.booleans(asked.booleans.values())
    model = {name: integers[constant] for name, constant in asked.integers.items()}
    return model | {name: int(booleans[constant]) for name, constant in asked.booleans.items()}
