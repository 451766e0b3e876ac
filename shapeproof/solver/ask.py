"""One satisfiability question to Z3, over the whole of what it is given, by a fixed sequence of attempts.

The attempts differ in the core of Z3 and in how divisions are written; each decides questions that the others do not.
Cheap ones come first, each with its share of the budget. `unsat` is a proof. A model is only a candidate: functions
without a theory take part in it, so the caller evaluates it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shapeproof.constraints.formulas import Truth
from shapeproof.constraints.nodes import postorder
from shapeproof.constraints.terms import Symbol
from shapeproof.solver.lower import Bounds, Lowering
from shapeproof.solver.session import Answer, Core, Session

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shapeproof.constraints.formulas import Formula
    from shapeproof.solver.budget import Budget, Ledger


@dataclass(frozen=True, slots=True)
class Attempt:
    """A way to ask, and how much of Z3's resource it may use."""

    core: Core
    quotients: bool
    rlimit: int | None
    """None: what is left of the budget."""


QUICK = (Attempt(Core.SMT, quotients=True, rlimit=20_000), Attempt(Core.SMT, quotients=False, rlimit=40_000))
THOROUGH = (Attempt(Core.FULL, quotients=False, rlimit=None), Attempt(Core.SMT, quotients=False, rlimit=None))


@dataclass(frozen=True, slots=True)
class Found:
    """Z3's answer, the candidate that goes with `sat`, and what it cost."""

    answer: Answer
    model: dict[str, int] | None
    spent: int


def satisfy(
    formulas: Iterable[Formula],
    bounds: Bounds,
    budget: Budget,
    ledger: Ledger,
    attempts: Sequence[Attempt] = (*QUICK, *THOROUGH),
) -> Found:
    """Is there a point at which all the formulas hold?"""
    asked = tuple(dict.fromkeys(formulas))
    spent = 0
    for attempt in attempts:
        rlimit = budget.rlimit - spent if attempt.rlimit is None else min(attempt.rlimit, budget.rlimit - spent)
        if rlimit <= 0:
            break
        found = _attempt(attempt, asked, bounds, rlimit)
        spent += found.spent
        ledger.queries += 1
        ledger.rlimit += found.spent
        if found.answer is not Answer.UNKNOWN:
            return Found(found.answer, found.model, spent)
    return Found(Answer.UNKNOWN, None, spent)


def _attempt(attempt: Attempt, formulas: tuple[Formula, ...], bounds: Bounds, rlimit: int) -> Found:
    session = Session(attempt.core)
    lowering = Lowering(session, bounds, quotients=attempt.quotients)
    assertions = [lowering(formula) for formula in formulas]
    session.add([*assertions, *lowering.axioms])
    answer = session.check(rlimit)
    model = _model(session, formulas) if answer is Answer.SAT else None
    return Found(answer, model, session.spent)


def _model(session: Session, formulas: tuple[Formula, ...]) -> dict[str, int]:
    nodes = dict.fromkeys(node for formula in formulas for node in postorder(formula))
    model = {node.name: session.integer_value(session.integer(node.name)) for node in nodes if isinstance(node, Symbol)}
    for node in nodes:
        if isinstance(node, Truth):
            model[node.name] = int(session.boolean_value(session.boolean(node.name)))
    return model
