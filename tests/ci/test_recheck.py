"""`shapeproof recheck`: the table, the exit status, and one sentence for what cannot be checked."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from shapeproof.ci import cli
from shapeproof.constraints.records.verdicts import Evidence, Proved
from shapeproof.constraints.syntax.text import parse_formula as parse
from shapeproof.solver.budget import Budget
from shapeproof.solver.facts import Facts
from shapeproof.solver.ledger import Entry
from shapeproof.solver.proofs.certificate import Subject, write_certificate
from shapeproof.solver.smt.ask import solve_script

SOLVERS = ["z3", "cvc5"]


def certified(path, formula, *given, budget=None):
    """A certificate that claims that the formula follows."""
    entry = Entry(parse(formula), Facts(map(parse, given)).history, Proved(Evidence("facts")))
    return write_certificate(Subject([entry], budget=budget or Budget()), path)


def rechecked(path):
    return CliRunner().invoke(cli.app, ["recheck", str(path)])


def rows(done):
    return {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()[1:-1]}


def test_what_follows_is_proved_by_each_solver(tmp_path):
    claims = certified(tmp_path / "proof.smt2", "n // 4 >= 2", "n >= 8")["proved"]
    done = rechecked(tmp_path / "proof.smt2")
    assert done.exit_code == 0
    assert done.stdout.splitlines()[0].split() == ["solver", "unsat", "sat", "unknown"]
    assert rows(done) == {name: [str(claims), "0", "0"] for name in SOLVERS}
    assert done.stdout.splitlines()[-1].startswith("proved: ")


def test_what_does_not_follow_is_refuted(tmp_path):
    certified(tmp_path / "proof.smt2", "n // 4 >= 2", "n >= 7")
    done = rechecked(tmp_path / "proof.smt2")
    assert done.exit_code == 1
    assert all(sat == "1" for _, sat, _ in rows(done).values())
    assert done.stdout.splitlines()[-1].startswith("refuted: ")


def test_what_is_too_hard_is_undecided(tmp_path, monkeypatch):
    small = Budget(rlimit=1000)
    monkeypatch.setattr(
        "shapeproof.solver.proofs.recheck.installed_solvers", lambda: {"z3": lambda script: solve_script(script, small)}
    )
    certified(tmp_path / "proof.smt2", "a**3 + b**3 != c**3", "a >= 1", "b >= 1", "c >= 1", budget=small)
    done = rechecked(tmp_path / "proof.smt2")
    assert done.exit_code == 3
    assert done.stdout.splitlines()[-1] == "undecided: 1 claims are unknown to every solver"


@pytest.mark.quick
@pytest.mark.parametrize("text", [None, "", "{}", "; shapeproof certificate 1\n; sha256 of the lines below: 0\n"])
def test_what_is_no_certificate_is_one_sentence(tmp_path, text):
    if text is not None:
        (tmp_path / "proof.smt2").write_text(text, encoding="utf-8")
    done = rechecked(tmp_path / "proof.smt2")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("shapeproof: ")
    assert done.stderr.count("\n") == 1


def test_a_certificate_that_was_cut_off_is_one_sentence(tmp_path):
    path = tmp_path / "proof.smt2"
    certified(path, "n // 4 >= 2", "n >= 8")
    path.write_text(path.read_text(encoding="utf-8")[:-40], encoding="utf-8")
    done = rechecked(path)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == f"shapeproof: {path} is not as it was written: it was changed or cut off\n"
