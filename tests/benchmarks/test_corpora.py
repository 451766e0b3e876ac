"""What the benchmark claims of shapeproof, without its clock: every recorded question is decided, and none wrongly."""

from __future__ import annotations

import pytest

from benchmarks.corpus import CORPORA, GUARDS, load
from benchmarks.peers.ours import Ours
from benchmarks.peers.worker import converse
from benchmarks.scoring import Points
from benchmarks.solver import FACTS, session_of, textbook

SESSIONS = [session_of(load(path), 600.0) for path in (GUARDS, *sorted(CORPORA.glob("*.txt")))]
SESSIONS += textbook(FACTS.read_text(encoding="utf-8"), 600.0)


BOTH = frozenset({"always", "never"})


SLOW = {"swin_padded"}


@pytest.mark.parametrize(
    "session",
    [pytest.param(each, marks=pytest.mark.slow if each.name in SLOW else (), id=each.name) for each in SESSIONS],
)
def test_every_question_is_decided_and_none_wrongly(session):
    points = Points(session.declared, session.bounds, session.example)
    answers = converse(session, Ours())
    for step in session.steps:
        answer = next(answers) if step.ask is not None else None
        if answer is not None:
            for witness in answer.witnesses:
                points.offer(witness)
            refuted = {claim for claim in BOTH if points.against(step.ask, claim) is not None}
            right = {"depends"} if len(refuted) == len(BOTH) else BOTH - refuted
            assert answer.answer in right, step.ask
        if step.learn is not None:
            points.learn(step.learn)
    assert next(answers, None) is None
