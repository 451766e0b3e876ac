from __future__ import annotations

import pytest

from shapeproof.constraints.syntax.text import parse_formula as parse
from shapeproof.solver.facts import Facts
from shapeproof.solver.learned.audit import auditing
from shapeproof.solver.prove import decide, truth
from tests.solver import corpus


@pytest.mark.thorough
def test_every_claim_of_the_swin_corpus_is_proved_again_by_z3():
    with auditing() as auditor:
        known = Facts(map(parse, corpus.SWIN_DOMAIN))
        for decision in corpus.swin():
            truth(decision, known)
            known.learn(decision)
    report = {answer: len(claims) for answer, claims in auditor.check().items()}
    assert report.pop("proved") > 100
    assert report == {"refuted": 0, "unknown": 0, "opaque": 0}


@pytest.mark.quick
@pytest.mark.parametrize(("text", "given"), corpus.PROVED, ids=[text[:60] for text, _ in corpus.PROVED])
def test_no_claim_behind_a_proof_is_wrong(text, given):
    with auditing() as auditor:
        decide(parse(text), Facts(map(parse, given)))
    report = auditor.check()
    assert report["refuted"] == report["unknown"] == []


def test_a_wrong_claim_is_found(monkeypatch):
    monkeypatch.setattr("shapeproof.solver.learned.knowledge.Knowledge.nonnegative", lambda *_: True)
    with auditing() as auditor:
        Facts([parse("n >= 3")]).reduce(parse("min(n, 5) == m"))
    assert auditor.check()["refuted"]


def test_nothing_is_collected_outside_the_block():
    with auditing() as auditor:
        pass
    decide(parse("h % 2 == 0"), Facts([parse("h % 4 == 0")]))
    assert not auditor.claims


def test_what_is_left_open_in_a_script_cannot_refute():
    with auditing() as auditor:
        decide(parse("x**5 * y**5 >= x**4 * y**5"), Facts([parse("x >= 1"), parse("y >= 1"), parse("x <= 2")]))
    report = auditor.check()
    assert report["refuted"] == []
    assert report["opaque"]


def test_what_is_claimed_where_it_is_defined_is_not_refuted_where_it_is_not():
    """Z3 gives a division by zero any value."""
    with auditing() as auditor:
        truth(parse("x // (x % 4) >= z"), Facts([parse("x >= 6"), parse("z <= -2")]))
    report = auditor.check()
    assert report["refuted"] == report["unknown"] == []
    assert any("x % 4" in str(claim.statement) for claim in report["proved"])
