"""What the benchmark claims of shapeproof, without its clock: every recorded question is decided, and none wrongly.

What the cheap steps relied on is proved again by Z3, over all recordings.
"""

from __future__ import annotations

import pytest

from benchmarks.corpus import CORPORA, GUARDS, load
from benchmarks.peers.ours import Ours
from benchmarks.peers.worker import converse
from benchmarks.scoring import Points
from benchmarks.solver import FACTS, session_of, textbook
from shapeproof.solver import Facts, auditing, truth

SLOW = {"swin_padded"}
SLOW_TO_AUDIT = SLOW | {"floor_chain"}
BOTH = frozenset({"always", "never"})

RECORDINGS = [load(path) for path in sorted(CORPORA.glob("*.txt"))]
SESSIONS = [session_of(recording, 600.0) for recording in (load(GUARDS), *RECORDINGS)]
SESSIONS += textbook(FACTS.read_text(encoding="utf-8"), 600.0)


def named(cases, slow):
    return [pytest.param(each, marks=pytest.mark.slow if each.name in slow else (), id=each.name) for each in cases]


@pytest.mark.parametrize("session", named(SESSIONS, SLOW))
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


@pytest.mark.parametrize("recording", named(RECORDINGS, SLOW_TO_AUDIT))
def test_no_claim_behind_an_answer_is_wrong(recording):
    with auditing() as auditor:
        facts = Facts(recording.declared)
        for question in recording.questions:
            if question.kind != "promised":
                truth(question.formula, facts)
            if question.learned is not None:
                facts.learn(question.learned)
    claims = auditor.check()
    assert claims["proved"]
    assert claims["refuted"] == claims["unknown"] == []
