"""How a peer is talked to: sessions in, one a line of JSON; an answer out for every question, one a line.

A session holds a declared domain and the questions in order, each with what is learned
after it. What takes too long altogether is not asked any more. Time is what the processor spent on the peer, so that
other work on the machine does not count. Standard library only.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Protocol

ANSWERS = ("always", "never", "depends", "unknown", "unsupported", "late")
"""Holds everywhere in the domain; nowhere; here and there; no answer; cannot be asked; was not come to in time."""

END = "end"
"""The line after the last answer of a session."""


@dataclass(frozen=True, slots=True)
class Step:
    """A question, and what is a fact from there on; either may be None."""

    ask: str | None
    learn: str | None = None


@dataclass(frozen=True, slots=True)
class Session:
    """A domain with the questions asked in it.

    `declared` is the whole domain and `bounds` what of it bounds single symbols, for whoever takes bounds; `example` is
    a point of it that takes every outcome. When so many `seconds` were spent, what is left is not asked.
    """

    name: str
    declared: tuple[str, ...]
    bounds: dict[str, tuple[int | None, int | None]]
    example: dict[str, int]
    steps: tuple[Step, ...]
    seconds: float

    @classmethod
    def from_json(cls, line: str) -> Session:
        """The session that a line is."""
        data = json.loads(line)
        bounds = {name: tuple(pair) for name, pair in data.pop("bounds").items()}
        steps = tuple(Step(**step) for step in data.pop("steps"))
        return cls(declared=tuple(data.pop("declared")), bounds=bounds, steps=steps, **data)

    def to_json(self) -> str:
        """The session as a line."""
        return json.dumps(asdict(self))


@dataclass(frozen=True, slots=True)
class Answer:
    """What was answered, by which step if one is named, what shows it, and the processor's seconds."""

    answer: str
    step: str = ""
    witnesses: tuple[dict[str, int], ...] = ()
    deciding: float = 0.0
    """To answer the question once it is read."""
    around: float = 0.0
    """To read it, and to learn what is learned after it."""

    @classmethod
    def from_json(cls, line: str) -> Answer:
        """The answer that a line is."""
        data = json.loads(line)
        return cls(**(data | {"witnesses": tuple(data["witnesses"])}))


class Peer(Protocol):
    """Whoever answers in one session."""

    def read(self, text: str) -> Any:
        """The question in the peer's own terms."""

    def ask(self, question: Any) -> str | Answer:
        """One of ANSWERS, about what is known so far."""

    def learn(self, fact: Any) -> None:
        """Take it as a fact from here on, as far as the peer can."""


Meeting = Callable[[Session, Callable[[Peer], None]], None]
"""Makes the peer for a session and hands it over to be asked."""


def converse(session: Session, peer: Peer) -> Iterator[Answer]:
    """Ask everything in order, until the time is up.

    What a peer raises means that it cannot be asked that, or cannot be taught that; the rest is asked all the same.
    """
    for fact in session.declared:
        _teach(peer, fact)
    spent = 0.0
    for step in session.steps:
        if spent > session.seconds:
            return
        start = time.process_time()
        answer = Answer("unknown") if step.ask is None else _put(peer, step.ask)
        if step.learn is not None:
            _teach(peer, step.learn)
        taken = time.process_time() - start
        spent += taken
        if step.ask is not None:
            yield replace(answer, around=taken - answer.deciding)


def _put(peer: Peer, text: str) -> Answer:
    try:
        question = peer.read(text)
        start = time.process_time()
        given = peer.ask(question)
    except Exception:  # noqa: BLE001 - whatever a peer raises
        return Answer("unsupported")
    deciding = time.process_time() - start
    return replace(given if isinstance(given, Answer) else Answer(given), deciding=deciding)


def _teach(peer: Peer, text: str) -> None:
    with suppress(Exception):
        peer.learn(peer.read(text))


def serve(meet: Meeting) -> None:
    """Answer every session on standard input."""
    for line in sys.stdin:
        session = Session.from_json(line)
        meet(session, partial(_answer, session))
        print(END, flush=True)


def _answer(session: Session, peer: Peer) -> None:
    for each in converse(session, peer):
        print(json.dumps(asdict(each)), flush=True)
