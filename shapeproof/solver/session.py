"""One question to Z3: its own context, a fixed seed, a resource limit, scopes. The only place that runs the solver.

Every session has a fresh context, so that an answer cannot depend on the questions asked before it. No wall clock
takes part: Z3 stops at its resource counter, the same on any machine. Nothing here knows terms; lower.py does.
"""

from __future__ import annotations

from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING

import z3

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Answer(Enum):
    """What Z3 said of the assertions in scope."""

    SAT = "sat"
    UNSAT = "unsat"
    UNKNOWN = "unknown"


class Core(Enum):
    """Which of Z3's two ways of working to use; each decides questions that the other does not."""

    SMT = "smt"
    """The bare search engine: answers in a fraction of a millisecond or, on hard products, not at all."""
    FULL = "full"
    """With preprocessing and the nonlinear tactics: slower to start, decides more."""


_SEED = 0


class Session:
    """A context and a solver, used for one question and thrown away.

    >>> session = Session(Core.SMT)
    >>> n = session.integer("n")
    >>> session.add([n > 3, n < 4])
    >>> session.check(rlimit=100_000)
    <Answer.UNSAT: 'unsat'>
    """

    def __init__(self, core: Core = Core.FULL) -> None:
        self.context = z3.Context()
        make = z3.SimpleSolver if core is Core.SMT else z3.Solver
        self._solver: z3.Solver = make(ctx=self.context)
        self._solver.set("random_seed", _SEED)
        self._counted = 0
        self.spent = 0

    def integer(self, name: str) -> z3.ArithRef:
        """An integer unknown of this session."""
        return z3.Int(name, self.context)

    def boolean(self, name: str) -> z3.BoolRef:
        """A boolean unknown of this session."""
        return z3.Bool(name, self.context)

    def add(self, assertions: Iterable[z3.BoolRef]) -> None:
        """Assert in the current scope."""
        self._solver.add(*assertions)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """What is asserted inside is forgotten at the end."""
        self._solver.push()
        try:
            yield
        finally:
            self._solver.pop()

    def check(self, rlimit: int, assumptions: Iterable[z3.BoolRef] = ()) -> Answer:
        """Ask, within a resource limit."""
        self._solver.set("rlimit", max(1, rlimit))
        answer = str(self._solver.check(*assumptions))
        self._account()
        return Answer(answer)

    def _account(self) -> None:
        statistics = self._solver.statistics()
        counted = next((int(value) for key, value in statistics if key == "rlimit count"), self._counted)
        self.spent += counted - self._counted
        self._counted = counted

    def integer_value(self, expression: z3.ArithRef) -> int:
        """Its value in the model found by the last check; what the model leaves open becomes 0."""
        return int(self._solver.model().eval(expression, model_completion=True).as_long())

    def boolean_value(self, expression: z3.BoolRef) -> bool:
        """Its value in the model found by the last check."""
        return bool(z3.is_true(self._solver.model().eval(expression, model_completion=True)))

    def unsatisfiable_core(self) -> frozenset[str]:
        """Names of the assumptions that clash, after an UNSAT answer to `check` with assumptions."""
        return frozenset(str(assumption) for assumption in self._solver.unsat_core())

    def smtlib(self) -> str:
        """The assertions in scope as an SMT-LIB script that any solver can read."""
        return str(self._solver.to_smt2())
