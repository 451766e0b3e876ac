"""The decisions that jax.export takes on symbolic dimensions. Runs where `jax` is installed.

A comparison of symbolic dimensions is answered at once, or raises that it is inconclusive; `==` and `!=` are always
answered. Constraints are given as text when a scope is made, as `>=`, `<=` or `==`; other facts cannot be learned.
Every dimension is at least 1 to JAX.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from jax import core, export

from benchmarks.peers.reading import Operations, Unsupported, read
from benchmarks.peers.worker import Peer, Session, serve

Possibly = bool | None
"""None: inconclusive."""


def _compared(function: Callable[[Any, Any], Any], left: Any, right: Any) -> Possibly:
    try:
        return bool(function(left, right))
    except core.InconclusiveDimensionOperation:
        return None


def _both(left: Possibly, right: Possibly) -> Possibly:
    """Kleene's `and`."""
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def _opposite(value: Possibly) -> Possibly:
    return None if value is None else not value


ASKING: Operations = {
    **{name: getattr(operator, name) for name in ("add", "sub", "mul", "neg", "floordiv", "mod")},
    **{name: partial(_compared, getattr(operator, name)) for name in ("lt", "le", "eq", "ne", "ge", "gt")},
    "min": core.min_dim,
    "max": core.max_dim,
    "both": _both,
    "either": lambda a, b: _opposite(_both(_opposite(a), _opposite(b))),
    "opposite": _opposite,
}

WRITING: Operations = {
    "add": lambda a, b: f"({a} + {b})",
    "sub": lambda a, b: f"({a} - {b})",
    "mul": lambda a, b: f"({a})*({b})",
    "neg": lambda a: f"(-1)*({a})",
    "floordiv": lambda a, b: f"floordiv({a}, {b})",
    "mod": lambda a, b: f"mod({a}, {b})",
    "min": lambda a, b: f"min({a}, {b})",
    "max": lambda a, b: f"max({a}, {b})",
    "lt": lambda a, b: [f"{b} >= {a} + 1"],
    "le": lambda a, b: [f"{b} >= {a}"],
    "ge": lambda a, b: [f"{a} >= {b}"],
    "gt": lambda a, b: [f"{a} >= {b} + 1"],
    "eq": lambda a, b: [f"{a} == {b}"],
    "both": operator.add,
}
"""A fact as the constraints that say it."""


class Scope:
    """Symbolic dimensions under all constraints so far; made anew when one is added."""

    def __init__(self, names: list[str]) -> None:
        self._names = names
        self._constraints: list[str] = []
        self._dims = self._made([])

    def _made(self, constraints: list[str]) -> Mapping[str, Any]:
        scope = export.SymbolicScope(constraints)
        return {name: export.symbolic_shape(name, scope=scope)[0] for name in self._names}

    def read(self, text: str) -> str:
        """The text: JAX has no expression for a question."""
        return text

    def ask(self, question: str) -> str:
        """What the comparisons in it come to."""
        return {True: "always", False: "never", None: "unknown"}[read(question, self._dims, ASKING)]

    def learn(self, fact: str) -> None:
        """Add it to the constraints, unless it is known.

        Raises:
            Unsupported: it is not a constraint that JAX takes.
        """
        if self.ask(fact) == "always":
            return
        try:
            constraints = [*self._constraints, *read(fact, {name: name for name in self._names}, WRITING)]
            self._dims = self._made(constraints)
        except (ValueError, NotImplementedError) as error:
            raise Unsupported(str(error)) from None
        self._constraints = constraints


def meet(session: Session, use: Callable[[Peer], None]) -> None:
    """Be asked."""
    use(Scope(list(session.example)))


if __name__ == "__main__":
    serve(meet)
