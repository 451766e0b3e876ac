"""One question to Z3: its own context, a fixed seed, a resource limit. The only place that runs the solver.

Every session has a fresh context, so that an answer cannot depend on the questions asked before it. Z3 stops at its
resource counter, the same on any machine; the clock is only a backstop, for the few places where Z3 does not look
at the counter. Nothing here knows terms; lower.py does.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

import z3

if TYPE_CHECKING:
    from collections.abc import Iterable


class Answer(Enum):
    """What Z3 said of the script."""

    SAT = "sat"
    UNSAT = "unsat"
    UNKNOWN = "unknown"


class Core(Enum):
    """Which of Z3's two ways of working to use; each decides questions that the other does not."""

    SMT = "smt"
    """The bare search engine: answers in a fraction of a millisecond or, on hard products, not at all."""
    FULL = "full"
    """With preprocessing and the nonlinear tactics: slower to start, decides more."""


z3.set_param("lp.dio", "false")  # it has no form for one solver; of others in the process it changes the speed only
"""Z3's solver of Diophantine equations counts nothing, and heeds no clock while its integers grow by minutes."""
_SEED = 0
_BACKSTOP_MS = 60_000
"""Far beyond what any budget takes on a slow machine."""
_DIGITS = 4000
"""Python reads no decimal of many more."""


class Session:
    """A context and a solver for one script. ValueError if that is not SMT-LIB.

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
        """Ask, within a resource limit."""
        self._solver.set("rlimit", max(1, rlimit))
        answer = Answer(str(self._solver.check()))
        self.spent = next((int(value) for key, value in self._solver.statistics() if key == "rlimit count"), 0)
        return answer

    def integers(self, names: Iterable[str]) -> dict[str, int]:
        """Values of these constants in the model found by `check`; what the model leaves open is 0."""
        model = self._solver.model()
        return {
            name: _integer(model.eval(z3.Int(name, self._context), model_completion=True).as_string()) for name in names
        }

    def booleans(self, names: Iterable[str]) -> dict[str, bool]:
        """The same for boolean constants; False where the model leaves them open."""
        model = self._solver.model()
        return {
            name: bool(z3.is_true(model.eval(z3.Bool(name, self._context), model_completion=True))) for name in names
        }


def _integer(digits: str) -> int:
    """The integer of any number of digits."""
    if digits.startswith("-"):
        return -_integer(digits[1:])
    value = 0
    for start in range(0, len(digits), _DIGITS):
        part = digits[start : start + _DIGITS]
        value = value * 10 ** len(part) + int(part)
    return value
