"""One question to Z3, with its own context, a fixed seed and a resource limit. The only module that runs Z3.

Each session has a fresh context, so that an answer cannot depend on earlier questions. Z3 stops at its resource
counter, which is the same on every machine. The clock is a backstop for the few places where Z3 ignores the counter.
The text of the question comes from lower.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

import z3


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
