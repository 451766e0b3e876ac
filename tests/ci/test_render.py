"""The forms of `shapeproof check --format`: frozen as text, and read by independent libraries."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import junitparser
import pytest
import sarif_pydantic

from shapeproof.ci.commands.check import exit_status
from shapeproof.ci.jobs import Accepted, Check, Job, Outcome, Result
from shapeproof.ci.pages import pages
from shapeproof.ci.render import Format, render
from shapeproof.constraints.records.diagnostics import Diagnostic, Help, Note
from shapeproof.export.report.render import page_command
from shapeproof.export.report.report import Report
from shapeproof.export.report.saved import saved_report
from tests.documents import without_pages_and_version
from tests.export.report.page.test_html import in_one_line, parsed

MODEL = """\
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        return x.view(-1, 4)
"""
TITLE = "`x.shape[0]` must be a multiple of 4"


@pytest.fixture
def outcomes(tmp_path, monkeypatch):
    """A project in the working directory, with a model for each kind of outcome."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    (tmp_path / "nets").mkdir()
    (tmp_path / "nets" / "a b.py").write_text(MODEL, encoding="utf-8")
    inside = Diagnostic(
        "divides",
        TITLE,
        file=str(tmp_path / "nets" / "a b.py"),
        line=5,
        notes=(Note("fails at", "x.shape[0] = 1   replayed; eager raises: 50% of\nit"),),
        witness={"x.shape[0]": 1},
        help=(Help("declare 4*k", "proved"),),
    )
    outside = Diagnostic("undecided", "could not be decided", "warning", "/usr/lib/torch/_prims.py", 12)
    job = Job(root=str(tmp_path), target="nets:Net")
    spec = Path("shapeproof.toml")
    proved = Result("proved", "proved", contract=Accepted({"x": ["n", "4"]}, ("x.shape[0] >= 1",)), seconds=1.25)
    refuted = Result("refuted", f"error[divides]: {TITLE}\nrefuted: 1 decisions", (inside,), seconds=2.0)
    undecided = Result("undecided", "warning[undecided]: could not be decided\nundecided", (outside,), seconds=3.0)
    crashed = Result(None, "the process ended by SIGABRT before there was a verdict: \x1b[31m::error::no")
    return [
        Outcome(Check("good", spec, 3, "proved", accept_undecided=False, job=job), proved, unchanged=True),
        Outcome(Check("bad, worse", spec, 6, "proved", accept_undecided=False, job=job), refuted),
        Outcome(Check("bad as expected", spec, 9, "refuted", accept_undecided=False, job=job), refuted),
        Outcome(Check("open", spec, 12, "proved", accept_undecided=False, job=job), undecided),
        Outcome(Check("open as accepted", spec, 15, "proved", accept_undecided=True, job=job), undecided),
        Outcome(Check("better than expected", spec, 18, "refuted", accept_undecided=False, job=job), proved),
        Outcome(Check("crashed", Path("other.toml"), 2, "proved", accept_undecided=False, job=job), crashed),
    ]


@pytest.mark.quick
@pytest.mark.parametrize("form", [form for form in Format if form is not Format.HTML])
def test_each_form_as_text(outcomes, golden, tmp_path, form):
    text = render(outcomes, form).replace(str(tmp_path), "/project")
    golden.check(f"ci/check.{form}.txt", without_pages_and_version(text))


def test_what_was_not_run_is_told_and_is_no_failure(outcomes, tmp_path):
    """Each form is of a run that was stopped: a reader must not take what is missing for what has passed."""
    left = replace(outcomes[0], result=Result(None, "not run, since bad did not pass"), unchanged=False, skipped=True)
    stopped = [outcomes[1], left]
    assert render(stopped, Format.TEXT).endswith("0 passed, 1 failed, 1 not run to the end")
    assert "not run" in render(stopped, Format.TEXT).splitlines()[-2]
    models = json.loads(render(stopped, Format.JSON))["models"]
    assert [(model["skipped"], model["passed"]) for model in models] == [(False, False), (True, False)]
    (tmp_path / "junit.xml").write_text(render(stopped, Format.JUNIT), encoding="utf-8")
    suites = junitparser.JUnitXml.fromfile(str(tmp_path / "junit.xml"))
    assert (suites.tests, suites.failures, suites.errors, suites.skipped) == (2, 1, 0, 1)
    results = json.loads(render(stopped, Format.SARIF))["runs"][0]["results"]
    assert [(result["ruleId"], result["level"]) for result in results] == [("divides", "error"), ("not-run", "note")]
    assert "::notice file=shapeproof.toml,line=3,title=shapeproof%3A good%3A not-run::" in render(
        stopped, Format.GITHUB
    )
    assert exit_status(stopped) == 1
    assert exit_status([left]) == 0


def test_a_quiet_text_is_what_did_not_pass_and_the_last_line(outcomes):
    whole, quiet = (render(outcomes, Format.TEXT, quiet=each) for each in (False, True))
    assert quiet.splitlines()[-1] == whole.splitlines()[-1] == "3 passed, 4 failed"
    assert [line for line in quiet.splitlines() if line.startswith("== ")] == [
        line for line in whole.splitlines() if line.startswith("== ")
    ]
    assert "as expected" not in quiet
    assert render(outcomes[:1], Format.TEXT, quiet=True) == "1 passed, 0 failed"


def test_every_form_says_where_the_page_of_a_diagnostic_is(outcomes):
    for form in (Format.TEXT, Format.JUNIT, Format.GITHUB, Format.SARIF):
        assert page_command("divides") in render(outcomes, form), form
    rules = json.loads(render(outcomes, Format.SARIF))["runs"][0]["tool"]["driver"]["rules"]
    for name, page in pages().items():
        for rule in (rule for rule in rules if rule["id"] == name):
            assert rule["help"] == {"text": page, "markdown": page}
            assert "helpUri" not in rule  # no page is on the web


def test_sarif_is_2_1_0(outcomes):
    log = sarif_pydantic.Sarif.model_validate_json(render(outcomes, Format.SARIF))
    assert log.version == "2.1.0"
    (run,) = log.runs
    found = [(result.rule_id, result.level.value, place(result)) for result in run.results]
    assert found == [
        ("divides", "error", ("nets/a%20b.py", 5)),
        ("undecided", "warning", ("shapeproof.toml", 12)),
        ("unexpected", "error", ("shapeproof.toml", 18)),
        ("no-verdict", "error", ("other.toml", 2)),
    ]
    assert {rule.id for rule in run.tool.driver.rules} == {result.rule_id for result in run.results}


def place(result):
    (location,) = result.locations
    physical = location.physical_location
    return physical.artifact_location.uri, physical.region.start_line


def test_junit_has_a_case_for_each_model(outcomes, tmp_path):
    (tmp_path / "junit.xml").write_text(render(outcomes, Format.JUNIT), encoding="utf-8")
    suites = junitparser.JUnitXml.fromfile(str(tmp_path / "junit.xml"))
    assert (suites.tests, suites.failures, suites.errors) == (7, 3, 1)
    cases = {case.name: [type(result).__name__ for result in case.result] for suite in suites for case in suite}
    assert cases == {
        "good": [],
        "bad, worse": ["Failure"],
        "bad as expected": [],
        "open": ["Failure"],
        "open as accepted": [],
        "better than expected": ["Failure"],
        "crashed": ["Error"],
    }


def test_json_has_what_is_known_of_every_model(outcomes):
    document = json.loads(render(outcomes, Format.JSON))
    assert not document["passed"]
    assert [model["passed"] for model in document["models"]] == [True, False, True, False, True, False, False]
    assert document["models"][0]["inputs"] == {"x": ["n", "4"]}
    assert document["models"][1]["diagnostics"][0]["witness"] == {"x.shape[0]": 1}


def test_annotations_land_on_the_line(outcomes, tmp_path, monkeypatch):
    """As GitHub reads a workflow command: `::name key=value,...::message`, with %-escapes."""
    commands = [line for line in render(outcomes, Format.GITHUB).splitlines() if line.startswith("::")]
    assert len(commands) == 4
    fields = dict(field.split("=", 1) for field in commands[0].split("::")[1].removeprefix("error ").split(","))
    assert (tmp_path / fields["file"]).read_text(encoding="utf-8").splitlines()[int(fields["line"]) - 1] == (
        "        return x.view(-1, 4)"
    )
    assert commands[0].split("::")[2].startswith(TITLE)
    assert "50%25 of%0Ait" in commands[0]
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path.parent))  # the spec is not at the root of the repository
    (first, *_) = render(outcomes, Format.GITHUB).splitlines()
    assert f"file={tmp_path.name}/nets/a b.py,line=5" in first
    assert fields["title"] == "shapeproof%3A bad%2C worse%3A divides"


def test_the_page_has_each_model_with_its_verdict_and_what_is_known_of_it(outcomes):
    report = Report("refuted", outcomes[1].result.diagnostics, domain=("x.shape[0] >= 1",), inputs={"x": ["n", "4"]})
    known = replace(outcomes[1].result, report=saved_report(report))
    page = parsed(render([outcomes[0], replace(outcomes[1], result=known), *outcomes[2:]], Format.HTML))
    assert page.said.count("3 of 7 models passed") == 2  # the title of the page, and its heading
    for number, each in enumerate(outcomes, 1):
        told = in_one_line(page.within[f"m{number}"])
        assert told.startswith(f"{each.result.status or 'no verdict'} {each.check.name}")
        assert ("expected is" in told) is not each.passed
    assert in_one_line(TITLE) in in_one_line(page.within["m2-d1"])
    assert "return x.view(-1, 4)" in page.within["m2-f1-5"]
    assert "\\x1b[31m::error::no" in page.within["m7"]
    assert all(address.removeprefix("#") in page.ids for address in page.addresses)
    assert len(set(page.ids)) == len(page.ids)
