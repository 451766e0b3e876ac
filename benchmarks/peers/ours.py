"""shapeproof's solver, asked as the others are."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.peers.worker import Answer, Peer, Session, serve
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.syntax.text import parse_formula
from shapeproof.solver import Facts, truth


class Ours:
    """The facts of one session."""

    def __init__(self) -> None:
        self._facts = Facts()

    def read(self, text: str) -> Formula:
        """The question in canonical form."""
        return parse_formula(text)

    def ask(self, question: Formula) -> Answer:
        """The answer, the step of the ladder that gave it, and the points that show it."""
        found = truth(question, self._facts)
        answer = found.status if found.status in {"always", "never", "depends"} else "unknown"
        witnesses = tuple(dict(each) for each in (found.witness_true, found.witness_false) if each is not None)
        return Answer(answer, found.evidence.step if found.evidence else "", witnesses)

    def learn(self, fact: Formula) -> None:
        """A fact from here on."""
        self._facts.learn(fact)


def meet(_: Session, use: Callable[[Peer], None]) -> None:
    """Be asked."""
    use(Ours())


if __name__ == "__main__":
    serve(meet)
