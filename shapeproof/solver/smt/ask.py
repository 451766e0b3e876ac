"""One satisfiability question to Z3, by a fixed sequence of attempts on the whole question.

The attempts differ in Z3's core and in the encoding of divisions; each decides questions that the others cannot. Cheap
attempts come first, each with its share of the budget. `unsat` is a proof. A model is only a candidate, since it may
choose any functions where there is no theory; the caller evaluates it.

The only module that runs Z3. Each session has a fixed seed, a resource limit and a fresh context, so that an answer
cannot depend on earlier questions. Z3 stops at its resource counter, which is the same on every machine. The clock is a
backstop for the few places where Z3 ignores the counter. The text of the question comes from lower.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import z3

from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.work import charge
from shapeproof.plain import Saving, saves_time
from shapeproof.solver.budget import Allowance, Budget, current_allowance
from shapeproof.solver.functions.doubles import Bounds
from shapeproof.solver.ledger import Ledger
from shapeproof.solver.smt.lower import Script, script


class Answer(Enum):
    """Z3's answer to the script."""

    SAT = "sat"
    UNSAT = "unsat"
    UNKNOWN = "unknown"


class Core(Enum):
    """The choice between two engines of Z3; each decides questions that the other cannot."""

    SMT = "smt"
    """The bare search engine: answers in a fraction of a millisecond or, on hard products, not at all."""
    FULL = "full"
    """With preprocessing and the nonlinear tactics: starts more slowly, decides more."""


z3.set_param("lp.dio", "false")  # a global option only; for other users of Z3 in the process it changes only the speed
"""Z3's Diophantine solver counts no resources and ignores the clock, while its integers may grow for minutes."""
# Free one large block without using its pages: from then on, glibc keeps the 16 MiB of a freed context for the next
# one. Otherwise it returns them to the system, which clears every page again; that took a tenth of an export.
bytes(24 << 20)
_SEED = 0
_BACKSTOP_MS = 60_000
"""Far beyond the time that any budget takes on a slow machine."""
_DIGITS = 4000
"""Python refuses to read decimals much longer than this."""


class Session:
    """A context and a solver for one script; raises ValueError if the script is not SMT-LIB.

    >>> session = Session("(declare-const n Int) (assert (< 3 n 5))", Core.SMT)
    >>> session.check(rlimit=100_000), session.integers(["n"])
    (<Answer.SAT: 'sat'>, {'n': 4})
    """

    def __init__(self, script: str, core: Core = Core.FULL) -> None:
        self._context = z3.Context()
        make = z3.SimpleSolver if core is Core.SMT else z3.Solver
        self._solver: z3.Solver = make(ctx=self._context)
        self._solver.set(random_seed=_SEED, timeout=_BACKSTOP_MS)
        try:
            self._solver.from_string(script)
        except z3.Z3Exception as error:
            raise ValueError(str(error)) from None
        self.spent = 0

    def check(self, rlimit: int) -> Answer:
        """Ask Z3, within a resource limit."""
        self._solver.set("rlimit", max(1, rlimit))
        answer = Answer(str(self._solver.check()))
        self.spent = next((int(value) for key, value in self._solver.statistics() if key == "rlimit count"), 0)
        return answer

    def integers(self, names: Iterable[str]) -> dict[str, int]:
        """Return the values of these constants in the model found by `check`; unconstrained ones are 0."""
        model = self._solver.model()
        return {
            name: _integer(model.eval(z3.Int(name, self._context), model_completion=True).as_string()) for name in names
        }

    def booleans(self, names: Iterable[str]) -> dict[str, bool]:
        """Return the values of these boolean constants in the model; unconstrained ones are False."""
        model = self._solver.model()
        return {
            name: bool(z3.is_true(model.eval(z3.Bool(name, self._context), model_completion=True))) for name in names
        }


def _integer(digits: str) -> int:
    """Return the integer of a decimal of any length."""
    if digits.startswith("-"):
        return -_integer(digits[1:])
    value = 0
    for start in range(0, len(digits), _DIGITS):
        part = digits[start : start + _DIGITS]
        value = value * 10 ** len(part) + int(part)
    return value


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
    if question not in ledger.memo or not saves_time(Saving.ANSWERS):
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
