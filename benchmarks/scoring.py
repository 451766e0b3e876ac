"""Who is wrong: claims about a question, held against concrete points. No solver takes part.

A point is a value for every symbol. What holds at it, Python says, by running the question's own text; so the
scoring believes nobody, not even the witnesses that it is offered: one that is outside the domain is dropped.

>>> points = Points(["1 <= n <= 9"], {"n": (1, 9)}, {"n": 4})
>>> points.against("n != 1", "always"), points.against("n >= 1", "always")
({'n': 1}, None)
>>> points.learn("n % 2 == 0")
>>> points.against("n != 1", "always") is None
True
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType

from benchmarks.peers.worker import Answer, Session

Point = Mapping[str, int]
Bounds = Mapping[str, tuple[int | None, int | None]]

EVERY_POINT = 2**15
"""A box of at most so many points is tried as a whole."""
DRAWN = 4_000
"""Of a larger one, so many points are drawn, and as many from near its corners."""
_NEAR = 8
_FAR = 4_096
"""Stands for an end that a symbol has not."""
_FUNCTIONS = {name: getattr(math, name) for name in ("floor", "ceil", "trunc", "sqrt")}


class Points:
    """Points of a domain at which all that was learned holds.

    Args:
        declared: the domain, as text.
        bounds: the bounds of single symbols in it.
        example: a point of it.
    """

    def __init__(self, declared: Iterable[str], bounds: Bounds, example: Point) -> None:
        self._facts = list(map(_compiled, declared))
        ranges = {name: _range(*bounds.get(name, (None, None)), value) for name, value in example.items()}
        self._points = [point for point in itertools.chain([dict(example)], _drawn(ranges)) if self._inside(point)]

    def _inside(self, point: Point) -> bool:
        return all(_holds(fact, point) for fact in self._facts)

    def learn(self, text: str) -> None:
        """A fact from here on."""
        fact = _compiled(text)
        self._facts.append(fact)
        self._points = [point for point in self._points if _holds(fact, point)]

    def offer(self, point: Point) -> None:
        """One more point, if it is in the domain."""
        if self._inside(point):
            self._points.append(dict(point))

    def __len__(self) -> int:
        return len(self._points)

    def against(self, text: str, claim: str) -> Point | None:
        """A point that shows the claim ("always" or "never") to be wrong, if there is one.

        Where the question itself divides by zero it does not hold.
        """
        question = _compiled(text)
        wrong = {"always": False, "never": True}.get(claim)
        return next((p for p in self._points if wrong is not None and _holds(question, p) is wrong), None)


def _compiled(text: str) -> CodeType:
    return compile(text, "<question>", "eval")


def _holds(code: CodeType, point: Point) -> bool:
    try:
        return bool(eval(code, _FUNCTIONS, point))  # noqa: S307 - the questions are files of this repository
    except ZeroDivisionError:
        return False


def _range(lower: int | None, upper: int | None, value: int) -> range:
    low = min(value, -_FAR) if lower is None else lower
    return range(low, (max(value, low + _FAR) if upper is None else upper) + 1)


def _drawn(ranges: Mapping[str, range]) -> Iterable[Point]:
    """Every point of the box, or some of it, always the same."""
    if math.prod(map(len, ranges.values())) <= EVERY_POINT:
        return (dict(zip(ranges, values, strict=True)) for values in itertools.product(*ranges.values()))
    chance = random.Random(0)
    return ({n: chance.choice(_part(r, chance)) for n, r in ranges.items()} for _ in range(2 * DRAWN))


def _part(values: range, chance: random.Random) -> Sequence[int]:
    """The whole range, or one of its ends."""
    return chance.choice((values, values, values[:_NEAR], values[-_NEAR:]))


@dataclass(frozen=True, slots=True)
class Scored:
    """An answer to a question, with a point that shows it to be wrong, if there is one."""

    question: str
    answer: Answer
    wrong: Point | None

    @property
    def proved(self) -> bool:
        """Whether it says that the question always holds, or never does, and nothing is against that."""
        return self.answer.answer in {"always", "never"} and self.wrong is None

    @property
    def decided(self) -> bool:
        """Whether it says anything."""
        return self.answer.answer in {"always", "never", "depends"}

    @property
    def seconds(self) -> float:
        """From the text of the question to the answer, and what is learned after it learned."""
        return self.answer.deciding + self.answer.around


def scored(session: Session, given: Sequence[Answer]) -> list[Scored]:
    """The answers to the questions of a session, in order, each held against the points that are left then.

    "depends" is wrong where no two points show it: that is not looked for, since no proof rests on it.
    """
    points = Points(session.declared, session.bounds, session.example)
    answers = iter(given)
    found: list[Scored] = []
    for step in session.steps:
        if step.ask is not None:
            answer = next(answers)
            for witness in answer.witnesses:
                points.offer(witness)
            found.append(Scored(step.ask, answer, points.against(step.ask, answer.answer)))
        if step.learn is not None:
            points.learn(step.learn)
    return found


def first_point(declared: Iterable[str], bounds: Bounds) -> dict[str, int]:
    """The first point of a domain whose symbols are all bounded; sizes 0 and 1, which are special to torch, come last.

    >>> first_point(["n % 3 == 0"], {"n": (0, 9)})
    {'n': 3}
    """
    facts = list(map(_compiled, declared))
    ranges = {name: _range(*pair, pair[0] or 0) for name, pair in bounds.items()}
    ordered = [sorted(values, key=lambda value: (value < 2, value)) for values in ranges.values()]
    points = (dict(zip(ranges, values, strict=True)) for values in itertools.product(*ordered))
    return next(point for point in points if all(_holds(fact, point) for fact in facts))
