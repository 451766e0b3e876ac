from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.records.verdicts import Evidence, Proved
from shapeproof.constraints.syntax.text import parse_formula as parse
from shapeproof.files import sha256
from shapeproof.solver.budget import Budget
from shapeproof.solver.facts import Facts
from shapeproof.solver.ledger import Entry, one_ledger
from shapeproof.solver.proofs.certificate import DIGEST, Subject, write_certificate
from shapeproof.solver.proofs.recheck import installed_solvers, recheck
from shapeproof.solver.prove import decide, truth
from tests.solver import corpus
from tests.thoroughness import examples

Z3 = {"z3": installed_solvers()["z3"]}


def answered(questions, given, names=None):
    """What there is to certify after these questions."""
    with one_ledger() as ledger:
        known = Facts(map(parse, given))
        for question in questions:
            decide(parse(question), known)
    return Subject(ledger.entries, names or {})


def claimed(formula, given):
    """An answer that nobody worked out."""
    history = Facts(map(parse, given)).history
    return Subject([Entry(parse(formula), history, Proved(Evidence("facts")))])


def forged(path, change):
    """Change the text, and the digest with it."""
    title, _, body = path.read_text(encoding="utf-8").split("\n", 2)
    body = change(body)
    path.write_text(f"{title}\n{DIGEST}{sha256(body)}\n{body}", encoding="utf-8")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "proof.smt2"


def test_a_proof_is_written_in_the_words_of_the_user_and_proved_again(path):
    subject = answered(["h // 4 != 1"], ["h % 4 == 0", "h >= 5"], {"h": "x.shape[0]"})
    counts = write_certificate(subject, path)
    text = path.read_text(encoding="utf-8")
    assert "; proved by facts: x.shape[0]//4 != 1\n;   from x.shape[0] % 4 == 0\n;   from x.shape[0] >= 5\n" in text
    assert "is x.shape[0]" in text
    assert f"; {sum(counts.values())} claims: {counts['proved']} proved, 0 refuted, 0 unknown, 0 opaque" in text
    assert "z3-solver" in text
    result = recheck(path)
    assert (result.status, result.claims) == ("proved", counts["proved"])
    assert all(answers == {"unsat": result.claims} for answers in result.answers.values())


def test_what_z3_decided_says_so(path):
    write_certificate(answered(["x//b <= y//b"], ["x <= y", "b >= 1"]), path)
    assert "; proved by z3: " in path.read_text(encoding="utf-8")
    assert recheck(path).status == "proved"


def test_a_point_that_z3_found_is_a_claim_of_its_own(path):
    subject = answered(["x*x != 1522756"], ["x >= 1", "x <= 10**9"])
    assert subject.entries[-1].verdict.evidence.step == "z3"
    write_certificate(subject, path)
    assert "; refuted by z3" in path.read_text(encoding="utf-8")
    assert "x == 1234" in path.read_text(encoding="utf-8")
    assert recheck(path).status == "proved"


def test_a_division_that_may_not_be_defined_is_part_of_what_is_proved(path):
    write_certificate(answered(["(k*n)//n == k"], ["n >= 1"]), path)
    assert "n != 0" in path.read_text(encoding="utf-8")
    assert recheck(path).status == "proved"


def test_contradictory_facts_are_certified(path):
    subject = answered(["n == 7"], ["n >= 3", "n % 2 == 0", "n < 4"])
    assert subject.entries[-1].verdict.status == "vacuous"
    write_certificate(subject, path)
    assert ": False\n;   from n >= 3" in path.read_text(encoding="utf-8")
    assert recheck(path).status == "proved"


def test_what_is_not_a_claim_is_listed(path):
    subject = answered(["n != 7", corpus.UNDECIDED[0][0]], ["n >= 1", *corpus.UNDECIDED[0][1]])
    write_certificate(subject, path)
    text = path.read_text(encoding="utf-8")
    assert "; refuted by evaluation: n != 7 at " in text
    assert "; undecided: " in text


def test_a_proof_from_fewer_facts_is_not_repeated(path):
    with one_ledger() as ledger:
        known = Facts([parse("n >= 8"), parse("m >= n")])
        for fact in ("k >= 1", "k <= 9", "k != 5"):
            decide(parse("m >= 4"), known)
            known.learn(parse(fact))
    write_certificate(Subject(ledger.entries), path)
    assert path.read_text(encoding="utf-8").count("; proved by facts: m >= 4") == 1


def test_a_wrong_answer_is_found(path):
    counts = write_certificate(claimed("n >= 3", ["n >= 2"]), path)
    assert counts["refuted"] == 1
    result = recheck(path)
    assert result.status == "refuted"
    assert all(answers["sat"] == 1 for answers in result.answers.values())


@pytest.mark.thorough
def test_what_no_solver_can_prove_is_undecided(path):
    write_certificate(claimed(*corpus.UNDECIDED[0]), path)
    assert recheck(path).status == "undecided"


def test_claims_about_doubles_are_listed_and_counted(path):
    counts = write_certificate(answered(["int(n * 0.5) <= n"], ["0 <= n <= 99"]), path)
    assert counts["opaque"] >= 1
    assert "not in SMT-LIB" in path.read_text(encoding="utf-8")


def test_one_solver_is_enough_for_a_proof_and_neither_may_contradict(path):
    write_certificate(answered(["n >= 3"], ["n >= 5"]), path)
    z3 = installed_solvers()["z3"]
    (one,) = {type(z3(""))}
    assert recheck(path, {"z3": z3, "weak": lambda _: one.UNKNOWN}).status == "proved"
    assert recheck(path, {"z3": z3, "wrong": lambda _: one.SAT}).status == "refuted"


@pytest.mark.quick
@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("n >= 5", "n >= 6"),
        lambda text: text[: len(text) // 2],
        lambda text: text + "\n",
        lambda text: text.replace("(- v0)", "v0", 1),
    ],
    ids=["a comment", "cut off", "one line more", "a formula"],
)
def test_a_file_that_was_changed_is_refused(path, change):
    write_certificate(answered(["n >= 3"], ["n >= 5"]), path)
    path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(UsageError, match="not as it was written"):
        recheck(path)


def test_a_claim_that_was_changed_with_its_digest_is_not_proved(path):
    write_certificate(answered(["n >= 3"], ["n >= 5"]), path)
    forged(path, lambda body: body.replace("5", "2"))
    assert recheck(path).status == "refuted"


@pytest.mark.quick
@pytest.mark.parametrize("text", ["", "hello", "hello\nworld\nagain\n", "; shapeproof certificate 2\nx\ny"])
def test_what_is_not_a_certificate_is_refused_in_a_sentence(path, text):
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match="is not a certificate"):
        recheck(path)


def test_what_is_not_text_is_refused(path):
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="is not a certificate"):
        recheck(path)


def test_a_missing_file_is_a_sentence(path):
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        recheck(path)


@pytest.mark.quick
@pytest.mark.parametrize("name", sorted(installed_solvers()))
def test_what_is_not_smt_lib_is_a_sentence(path, name):
    write_certificate(answered(["n >= 3"], ["n >= 5"]), path)
    forged(path, lambda body: body.replace("(assert", "(insert", 1))
    with pytest.raises(UsageError, match=r"claim 1 of .* is not SMT-LIB"):
        recheck(path, {name: installed_solvers()[name]})


def test_a_name_cannot_break_out_of_a_comment(path):
    write_certificate(answered(["n >= 3"], ["n >= 5"], {"n": "x\n(assert false)"}), path)
    assert "\n(assert false)" not in path.read_text(encoding="utf-8")


HOSTILE = [
    "(check-sat)",
    "(reset)\n(set-logic ALL)",
    "\r(assert false)",
    "\x1b[31m",
    "\u2028(exit)",
    "; 0 claims",
    "é",
    "\udce9",
]


@pytest.mark.thorough
@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(HOSTILE) | st.text(max_size=9), max_size=3).map("\n".join))
def test_no_name_changes_what_is_claimed(path, name):
    """Law: a certificate says the same whatever the user calls a size; and so it does of a wrong claim."""
    counts = write_certificate(answered(["n >= 3", "n//2 >= 2"], ["n >= 5"], {"n": name}), path)
    result = recheck(path, Z3)
    assert (result.status, result.claims) == ("proved", counts["proved"])
    assert all(each.isprintable() or each == "\n" for each in path.read_text(encoding="utf-8"))
    write_certificate(dataclasses.replace(claimed("n >= 3", ["n >= 2"]), names={"n": name}), path)
    assert recheck(path, Z3).status == "refuted"


@pytest.mark.quick
@pytest.mark.parametrize("verdict", ["proved", "refuted", "undecided", "vacuous"])
def test_claims_that_are_proved_again_give_the_verdict_that_they_are_for(path, verdict):
    write_certificate(
        dataclasses.replace(answered(["n >= 3"], ["n >= 5"]), about=[f"verdict of the run: {verdict}"]), path
    )
    result = recheck(path, Z3)
    assert (result.of_claims, result.status) == ("proved", verdict)


def test_what_no_solver_was_asked_is_not_proved_again(path):
    write_certificate(answered(["int(n * 0.5) <= n"], ["0 <= n <= 99"]), path)
    result = recheck(path, Z3)
    assert result.opaque >= 1
    assert result.status == "undecided"


@pytest.mark.quick
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda body: body.replace("(check-sat)\n", ""), r"it has no \(check-sat\)"),
        (lambda body: body.partition("\n(reset)")[0], "which is not what its head says"),
        (lambda body: "; verdict of the run: certain\n" + body, "whose verdict is 'certain'"),
    ],
)
def test_a_certificate_without_its_claims_is_none(path, change, sentence):
    write_certificate(answered(["n >= 3"], ["n >= 5"]), path)
    forged(path, change)
    with pytest.raises(UsageError, match=sentence):
        recheck(path, Z3)


def test_any_solver_can_read_the_file(path):
    """The whole file as one script, as a user would hand it to a solver of their own."""
    counts = write_certificate(
        answered(["h // 4 != 1", "x//b <= y//b"], ["h % 4 == 0", "h >= 5", "x <= y", "b > 0"]), path
    )
    program = (
        "import sys, z3; lines = []; solver = z3.Z3_eval_smtlib2_string(z3.main_ctx().ref(), open(sys.argv[1]).read());"
        "print(solver)"
    )
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["unsat"] * counts["proved"]


@pytest.mark.thorough
def test_the_certificate_of_the_swin_corpus(path):
    with one_ledger() as ledger:
        known = Facts(map(parse, corpus.SWIN_DOMAIN))
        for decision in corpus.swin():
            if truth(decision, known).always is None:
                known.learn(decision)
    counts = write_certificate(Subject(ledger.entries), path)
    assert counts["proved"] > 300
    assert (counts["refuted"], counts["unknown"], counts["opaque"]) == (0, 0, 0)
    result = recheck(path, {"z3": installed_solvers()["z3"]})
    assert (result.status, result.claims) == ("proved", counts["proved"])


def test_the_same_run_writes_the_same_file(path):
    texts = []
    for _ in range(2):
        write_certificate(answered(["x//b <= y//b", "h % 2 == 0"], ["x <= y", "b >= 1", "h % 4 == 0"]), path)
        texts.append(path.read_text(encoding="utf-8"))
    assert texts[0] == texts[1]


def test_a_budget_that_is_too_small_leaves_claims_unknown_and_says_so(path):
    with one_ledger() as ledger:
        decide(parse("x//b <= y//b"), Facts([parse("x <= y"), parse("b >= 1")]))
    counts = write_certificate(Subject(ledger.entries, budget=Budget(rlimit=1)), path)
    assert counts["unknown"] >= 1


def test_a_certificate_has_every_step_while_the_run_is_still_open(path, tmp_path):
    """The fault: facts of the same formulas share a state, and one learned before makes no claims."""
    with one_ledger() as ledger:
        known = Facts(budget=Subject([]).budget)
        for fact in ("h % 4 == 0", "h >= 5"):
            known.learn(parse(fact))
        decide(parse("h >= 8"), known)
        subject = Subject(list(ledger.entries))
        within = write_certificate(subject, path)
    assert within == write_certificate(subject, tmp_path / "later.smt2")
