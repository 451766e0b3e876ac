"""Z3 on the questions as they stand: what one writes first.

Integers; each division has a quotient and a remainder of its own, defined once; all definitions and all facts are in
scope of every question; one second for a check. A divisor of zero is not thought of.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import z3

from benchmarks.peers.reading import Operations, read
from benchmarks.peers.worker import Peer, Session, serve

MILLISECONDS = 1_000


class PlainZ3:
    """One solver, into which everything learned is asserted."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self._names = {name: z3.Int(name) for name in names}
        self._solver = z3.Solver()
        self._solver.set("timeout", MILLISECONDS)
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
        against = self._solver.check(z3.Not(question))
        if against != z3.sat:
            return "always" if against == z3.unsat else "unknown"
        favour = self._solver.check(question)
        return "never" if favour == z3.unsat else "depends" if favour == z3.sat else "unknown"

    def learn(self, fact: Any) -> None:
        """Assert it."""
        self._solver.add(fact)


_OWN = ("add", "sub", "mul", "neg", "lt", "le", "eq", "ne", "ge", "gt")


def meet(session: Session, use: Callable[[Peer], None]) -> None:
    """Be asked."""
    use(PlainZ3(session.example))


if __name__ == "__main__":
    serve(meet)
