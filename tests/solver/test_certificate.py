from __future__ import annotations

from shapeproof.constraints.text import parse_formula as parse
from shapeproof.solver.audit import auditing
from shapeproof.solver.certificate import recheck, write_certificate
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import decide, truth
from tests.solver import corpus


def collected(questions, given):
    with auditing() as auditor:
        known = Facts(map(parse, given))
        for question in questions:
            decide(parse(question), known)
    return auditor


def test_every_claim_is_written_in_the_words_of_the_user_and_proved_again(tmp_path):
    path = tmp_path / "proof.smt2"
    counts = write_certificate(collected(["h // 4 != 1"], ["h % 4 == 0", "h >= 5"]), path, {"h": "x.shape[0]"})
    text = path.read_text(encoding="utf-8")
    assert "x.shape[0] % 4 == 0" in text
    assert "is x.shape[0]" in text
    assert "z3-solver" in text
    assert set(counts) == {"proved"}
    assert recheck(path) == {"unsat": counts["proved"]}


def test_what_z3_decided_is_written_too(tmp_path):
    path = tmp_path / "proof.smt2"
    write_certificate(collected(["x//b <= y//b"], ["x <= y", "b >= 1"]), path)
    assert "; z3: " in path.read_text(encoding="utf-8")
    assert recheck(path).keys() == {"unsat"}


def test_a_claim_that_was_tampered_with_is_not_proved_again(tmp_path):
    path = tmp_path / "proof.smt2"
    write_certificate(collected(["n >= 3"], ["n >= 5"]), path)
    path.write_text(path.read_text(encoding="utf-8").replace("5", "2"), encoding="utf-8")
    assert recheck(path)["sat"] >= 1


def test_claims_about_doubles_are_listed_and_counted(tmp_path):
    path = tmp_path / "proof.smt2"
    counts = write_certificate(collected(["int(n * 0.5) <= n"], ["0 <= n <= 99"]), path)
    assert counts["opaque"] >= 1
    assert "not in SMT-LIB" in path.read_text(encoding="utf-8")


def test_the_certificate_of_the_swin_corpus(tmp_path):
    with auditing() as auditor:
        known = Facts(map(parse, corpus.SWIN_DOMAIN))
        for decision in corpus.swin():
            truth(decision, known)
            known.learn(decision)
    counts = write_certificate(auditor, tmp_path / "swin.smt2")
    assert recheck(tmp_path / "swin.smt2") == {"unsat": counts["proved"]}
