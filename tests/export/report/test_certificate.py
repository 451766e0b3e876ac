"""`report.certificate`: what a verdict rests on is in it, in the user's names, and a solver alone proves it again."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch.export import Dim
from typer.testing import CliRunner

from shapeproof.ci import cli
from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.formulas import TRUE, And
from shapeproof.constraints.syntax.text import format_formula
from shapeproof.export import Budget, check, export, load_report
from shapeproof.solver.proofs.recheck import recheck

# What is asked of Windows while it is traced, and is settled by what is declared: with no windows there is no mean.
BATCH, ROWS = Dim("batch", min=1, max=8), Dim("rows", min=1, max=64)


class Windows(torch.nn.Module):
    def forward(self, x):
        windows = x.view(x.shape[0], -1, 4, x.shape[2])
        return windows.mean(1) if windows.shape[1] <= x.shape[1] else windows[:, 0]


class Branching(torch.nn.Module):
    def forward(self, x):
        return x * 100 if x.shape[0] == 1 else x + 1


def windows():
    return Windows(), (torch.randn(3, 8, 5),), {"dynamic_shapes": ({0: BATCH, 1: 4 * ROWS},)}


@pytest.mark.thorough
def test_the_certificate_of_a_proved_program_is_proved_again(tmp_path):
    model, args, declared = windows()
    program = export(model, args, **declared)
    counts = program.report.certificate(tmp_path / "proof.smt2")
    text = (tmp_path / "proof.smt2").read_text(encoding="utf-8")
    assert "; verdict of the run: proved\n; for every input with " in text
    assert "torch 2." in text
    assert "; proved by facts: rows != 0\n" in text
    assert (counts["refuted"], counts["unknown"]) == (0, 0)
    result = recheck(tmp_path / "proof.smt2")
    assert (result.status, result.claims) == ("proved", counts["proved"])


@pytest.mark.thorough
def test_every_question_that_was_settled_is_in_it(tmp_path):
    """Nothing is settled that is not claimed: each proof of the ledger stands in the file."""
    model, args, declared = windows()
    report = check(model, args, **declared)
    report.certificate(tmp_path / "proof.smt2")
    text = (tmp_path / "proof.smt2").read_text(encoding="utf-8")
    claims = {line.rpartition(": ")[2] for line in text.splitlines() if line.startswith("; proved by ")}
    proved = [each.formula for each in report.answers.entries if each.verdict.status == "proved"]
    assert len(proved) >= 5
    for formula in proved:
        for part in formula.args if isinstance(formula, And) else (formula,):
            assert part is TRUE or format_formula(part, report.answers.names) in claims


@pytest.mark.thorough
def test_a_refuted_run_has_one_too(tmp_path):
    report = check(Branching(), (torch.randn(3, 4),), dynamic_shapes=({0: BATCH},))
    assert report.status == "refuted"
    report.certificate(tmp_path / "proof.smt2")
    assert "; verdict of the run: refuted\n" in (tmp_path / "proof.smt2").read_text("utf-8")
    result = recheck(tmp_path / "proof.smt2")
    assert (result.of_claims, result.verdict, result.status) == ("proved", "refuted", "refuted")


@pytest.mark.thorough
def test_a_certificate_names_the_report_that_it_belongs_to(tmp_path):
    report = check(Branching(), (torch.randn(3, 4),), dynamic_shapes=({0: BATCH},))
    report.save(tmp_path / "report.json")
    report.certificate(tmp_path / "proof.smt2")
    assert "; model: Branching\n" in (tmp_path / "proof.smt2").read_text("utf-8")
    ours = recheck_command(tmp_path, "report.json")
    assert (ours.exit_code, ours.stdout.splitlines()[-1]) == (
        1,
        "refuted: each claim is unsat for some solver, and sat for none; the verdict of the run is refuted",
    )
    dataclasses.replace(report, status="proved").save(tmp_path / "other.json")
    done = recheck_command(tmp_path, "other.json")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.endswith("other.json is not the report of the run that the certificate is about\n")


def recheck_command(folder, report):
    arguments = ["recheck", str(folder / "proof.smt2"), "--report", str(folder / report)]
    return CliRunner().invoke(cli.app, arguments)


def test_that_no_input_satisfies_all_declarations_is_certified(tmp_path):
    report = check(Branching(), (torch.randn(3, 4),), dynamic_shapes=({0: BATCH},), constraints=["batch > 8"])
    assert report.status == "vacuous"
    report.certificate(tmp_path / "proof.smt2")
    assert ": False\n" in (tmp_path / "proof.smt2").read_text(encoding="utf-8")
    result = recheck(tmp_path / "proof.smt2")
    assert (result.of_claims, result.status) == ("proved", "vacuous")


def test_a_loaded_report_has_no_certificate(tmp_path):
    model, args, declared = windows()
    check(model, args, **declared).save(tmp_path / "report.json")
    with pytest.raises(UsageError, match="check the model again"):
        load_report(tmp_path / "report.json").certificate(tmp_path / "proof.smt2")


def test_a_run_says_what_it_spent_and_spends_the_same_each_time(tmp_path):
    model, args, declared = windows()
    first, second = (check(model, args, **declared) for _ in range(2))
    assert first.spent["questions"] > 0
    assert first.spent == second.spent
    first.save(tmp_path / "report.json")
    assert load_report(tmp_path / "report.json").spent == first.spent


@pytest.mark.thorough
def test_runs_do_not_share_their_ledgers():
    model, args, declared = windows()
    alone = check(model, args, **declared).spent
    check(Branching(), (torch.randn(3, 4),), dynamic_shapes=({0: BATCH},), budget=Budget(rlimit=10))
    assert check(model, args, **declared).spent == alone
