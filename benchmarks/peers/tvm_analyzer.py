"""TVM's arithmetic analyzer, alone or with Z3 behind it (`--z3`), with budgets as it ships. Needs `apache-tvm`."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Mapping
from typing import Any

from tvm import ir, sym, tirx

from benchmarks.peers.reading import Operations, read
from benchmarks.peers.worker import Peer, Session, serve

UNBOUNDED = 2**40
"""Stands for no bound: TVM's integers have 64 bits."""


def _integers(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function on 64-bit integers, Python's own included."""
    return lambda *args: function(*(tirx.IntImm("int64", arg) if isinstance(arg, int) else arg for arg in args))


OPERATIONS: Operations = {
    **{name: _integers(getattr(operator, name)) for name in ("add", "sub", "mul", "neg", "lt", "le", "ge", "gt")},
    "eq": _integers(tirx.EQ),
    "ne": _integers(tirx.NE),
    "floordiv": _integers(tirx.floordiv),
    "mod": _integers(tirx.floormod),
    "min": _integers(tirx.min),
    "max": _integers(tirx.max),
    "where": _integers(tirx.Select),
    "both": tirx.And,
    "either": tirx.Or,
    "opposite": tirx.Not,
}


class Analyzer:
    """One analyzer; facts are constraint scopes that are never left."""

    def __init__(self, bounds: Mapping[str, tuple[int | None, int | None]], strength: sym.ProofStrength) -> None:
        self._analyzer = sym.Analyzer()
        self._strength = strength
        self._scopes: list[sym.analyzer.ConstraintScope] = []
        self._names = {name: tirx.Var(name, "int64") for name in bounds}
        for name, (lower, upper) in bounds.items():
            ends = -UNBOUNDED if lower is None else lower, (UNBOUNDED if upper is None else upper) + 1
            self._analyzer.bind(self._names[name], ir.Range(*(tirx.IntImm("int64", end) for end in ends)))

    def read(self, text: str) -> Any:
        """The question as a TVM expression."""
        return read(text, self._names, OPERATIONS)

    def ask(self, question: Any) -> str:
        """Whether it, or its negation, is proved."""
        if self._analyzer.can_prove(question, self._strength):
            return "always"
        return "never" if self._analyzer.can_prove(tirx.Not(question), self._strength) else "unknown"

    def learn(self, fact: Any) -> None:
        """Enter a scope in which it holds; TVM leaves a scope that nobody holds."""
        scope = self._analyzer.constraint_scope(fact)
        scope.__enter__()
        self._scopes.append(scope)


def meet(session: Session, use: Callable[[Peer], None]) -> None:
    """Be asked."""
    strength = sym.ProofStrength.SYMBOLIC_BOUND if "--z3" in sys.argv else sym.ProofStrength.DEFAULT
    unbounded = dict.fromkeys(session.example, (None, None))
    use(Analyzer(unbounded | session.bounds, strength))


if __name__ == "__main__":
    serve(meet)
