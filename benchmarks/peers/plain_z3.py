"""Z3 on the questions as they stand: what one writes first.

Integers; each division has a quotient and a remainder of its own, defined once; all definitions and all facts are in
scope of every question; one second of the processor for a check, whatever else the machine does. A divisor of zero is
not thought of.
"""

from __future__ import annotations

import operator
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import z3

from benchmarks.peers.reading import Operations, read
from benchmarks.peers.worker import Peer, Session, serve

SECONDS = 1.0
_LOOK = 0.02
"""The clock is looked at so often."""


class PlainZ3:
    """One solver, into which everything learned is asserted."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self._names = {name: z3.Int(name) for name in names}
        self._solver = z3.Solver()
        self._quotients: dict[tuple[int, int], tuple[Any, Any]] = {}
        self._divided: list[Any] = []
        self._operations: Operations = {name: getattr(operator, name) for name in _OWN} | {
            "floordiv": lambda a, b: self._divide(a, b)[0],
            "mod": lambda a, b: self._divide(a, b)[1],
            "min": lambda a, b: z3.If(a < b, a, b),
            "max": lambda a, b: z3.If(a > b, a, b),
            "where": z3.If,
            "both": z3.And,
            "either": z3.Or,
            "opposite": z3.Not,
        }

    def _divide(self, a: Any, b: Any) -> tuple[Any, Any]:
        """Quotient and remainder as Python has them."""
        a, b = (z3.IntVal(each) if isinstance(each, int) else each for each in (a, b))
        key = (a.get_id(), b.get_id())
        if key not in self._quotients:
            quotient, remainder = (z3.FreshInt(name) for name in ("q", "r"))
            positive, negative = (
                z3.And(b > 0, remainder >= 0, remainder < b),
                z3.And(b < 0, remainder <= 0, remainder > b),
            )
            self._solver.add(a == b * quotient + remainder, z3.Or(positive, negative))
            self._quotients[key] = quotient, remainder
            self._divided += [a, b]  # an id is given again once its expression is gone
        return self._quotients[key]

    def read(self, text: str) -> Any:
        """The question over Z3's integers; its definitions stay."""
        return read(text, self._names, self._operations)

    def ask(self, question: Any) -> str:
        """Always, never or depends, where Z3 finds that out."""
        against = self._check(z3.Not(question))
        if against != z3.sat:
            return "always" if against == z3.unsat else "unknown"
        favour = self._check(question)
        return "never" if favour == z3.unsat else "depends" if favour == z3.sat else "unknown"

    def _check(self, formula: Any) -> Any:
        """Z3's answer within the time. Its own timeout goes by the wall clock, and other work would cost it answers."""
        done = threading.Event()
        clock = threading.Thread(target=_interrupt_late, args=(time.process_time() + SECONDS, done))
        clock.start()
        try:
            return self._solver.check(formula)
        finally:
            done.set()
            clock.join()

    def learn(self, fact: Any) -> None:
        """Assert it."""
        self._solver.add(fact)


def _interrupt_late(end: float, done: threading.Event) -> None:
    """Stop Z3 once the processor's clock is past the end."""
    while not done.wait(_LOOK):
        if time.process_time() > end:
            z3.main_ctx().interrupt()


_OWN = ("add", "sub", "mul", "neg", "lt", "le", "eq", "ne", "ge", "gt")


def meet(session: Session, use: Callable[[Peer], None]) -> None:
    """Be asked."""
    use(PlainZ3(session.example))


if __name__ == "__main__":
    serve(meet)
