"""The lock file, and what `shapeproof diff` says where a model accepts less than is locked."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest
import sarif_pydantic

from shapeproof.ci.jobs import Accepted, Outcome, Result, checks_of
from shapeproof.ci.locked.lock import NAME, locked, read_lock, write_lock
from shapeproof.ci.locked.narrowing import Compared, Narrowing, narrowing
from shapeproof.ci.render.narrowings import DiffFormat, render_diff
from shapeproof.ci.specs.spec import load_spec
from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.records.diagnostics import Diagnostic
from shapeproof.files import write_whole
from tests.documents import without_pages

SPEC = """\
[dims.n]
min = 1
max = 64
multiple_of = 2

[models.net]
target = "nets:Net"
relations = ["n != 6"]
branches = "split"

[models.net.inputs]
x = { dtype = "float32", dims = [
    "n", 4] }
"""
DOMAIN = ("x.shape[0] >= 1", "x.shape[0] <= 64", "x.shape[0] % 2 == 0", "x.shape[0] != 6")
PROVED = Result("proved", "proved", contract=Accepted({"x": ["n", "4"]}, DOMAIN))


@pytest.fixture
def outcome(tmp_path):
    """An outcome of the model, after an edit of the spec."""

    def make(result=PROVED, **edits):
        text = SPEC
        for old, new in edits.get("edits", {}).items():
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / "shapeproof.toml"
        path.write_text(text, encoding="utf-8")
        check = list(checks_of(load_spec(path)))[-1]
        return Outcome(check, result)

    return make


def proved(*domain, sizes=("n", "4"), notes=()):
    return Result("proved", "proved", contract=Accepted({"x": list(sizes)}, domain), notes=notes)


def test_a_lock_is_read_as_it_was_written(tmp_path, outcome):
    write_lock(tmp_path, [outcome()])
    assert read_lock(tmp_path) == {"net": locked(outcome())}
    assert narrowing(read_lock(tmp_path)["net"], outcome()) is None


def test_a_file_that_cannot_be_written_whole_stays_as_it_was(tmp_path):
    (tmp_path / NAME).write_text("before", encoding="utf-8")
    with pytest.raises(UnicodeEncodeError):
        write_whole(tmp_path / NAME, "x" * 100_000 + "\udc80")
    assert [(path.name, path.read_text(encoding="utf-8")) for path in tmp_path.iterdir()] == [(NAME, "before")]
    with pytest.raises(UsageError, match=r"absent/shapeproof.lock cannot be written: No such file or directory$"):
        write_lock(tmp_path / "absent", [])


def test_two_models_of_one_name_are_not_locked_as_one(tmp_path, outcome):
    with pytest.raises(UsageError, match=r"have a model `net`; one lock file cannot hold both$"):
        write_lock(tmp_path, [outcome(), outcome()])
    assert not (tmp_path / NAME).exists()


def test_a_lock_that_is_none_is_one_sentence(tmp_path):
    with pytest.raises(UsageError, match=r"shapeproof.lock cannot be read; `shapeproof lock` writes it$"):
        read_lock(tmp_path)
    (tmp_path / NAME).write_text('{"format": 2, "models": {}}', encoding="utf-8")
    with pytest.raises(UsageError, match=r"shapeproof.lock is no lock file of this version \(at format\)$"):
        read_lock(tmp_path)


NARROWER = {
    "max": (
        {"max = 64": "max = 32"},
        proved("x.shape[0] >= 1", "x.shape[0] <= 32", *DOMAIN[2:]),
        "x.shape[0] = 34 is no longer accepted: x.shape[0] <= 32 is required",
        3,
    ),
    "min": (
        {"min = 1": "min = 3"},
        proved("x.shape[0] >= 3", *DOMAIN[1:]),
        "x.shape[0] = 2 is no longer accepted: x.shape[0] >= 3 is required",
        2,
    ),
    "multiple": (
        {"multiple_of = 2": "multiple_of = 4"},
        proved(*DOMAIN[:2], "x.shape[0] % 4 == 0"),
        "x.shape[0] = 2 is no longer accepted: x.shape[0] % 4 == 0 is required",
        4,
    ),
    "relation": (
        {"n != 6": "n != 8"},
        proved(*DOMAIN[:3], "x.shape[0] != 8"),
        "x.shape[0] = 8 is no longer accepted: x.shape[0] != 8 is required",
        8,
    ),
    "a size": (
        {'"n", 4': '"n", 5'},
        proved(*DOMAIN, sizes=("n", "5")),
        "x.shape[0] = 2 is no longer accepted: x.shape[1] == 5 is required",
        12,
    ),
}


@pytest.mark.parametrize("case", NARROWER)
def test_the_line_of_the_spec_that_narrowed_it(outcome, case):
    edits, result, message, line = NARROWER[case]
    before = locked(outcome())
    found = narrowing(before, outcome(result, edits=edits))
    assert (found.message, found.file.name, found.line) == (message, "shapeproof.toml", line)


def test_the_line_of_the_model_that_narrowed_it(outcome):
    """Inferred: the spec is as it was."""
    note = "inferred and enforced at run time: x.shape[0] % 4 == 0, asked for at nets.py:7"
    before = locked(outcome())
    found = narrowing(before, outcome(proved(*DOMAIN, "x.shape[0] % 4 == 0", notes=(note,))))
    assert (found.file.name, found.line) == ("nets.py", 7)


def test_what_is_wider_is_no_narrowing(outcome):
    before = locked(outcome())
    assert narrowing(before, outcome(proved("x.shape[0] >= 0"), edits={"min = 1": "min = 0"})) is None


def test_other_inputs_are_a_narrowing(outcome):
    before = locked(outcome())
    other = dataclasses.replace(PROVED, contract=Accepted({"x": ["n", "4"], "y": ["n"]}, DOMAIN))
    assert narrowing(before, outcome(other)).message == "it takes other inputs: ['x', 'y'], not ['x']"
    ranked = dataclasses.replace(PROVED, contract=Accepted({"x": ["n"]}, DOMAIN))
    assert narrowing(before, outcome(ranked)).message == "it takes other numbers of dimensions: {'x': 1}, not {'x': 2}"
    half = outcome(edits={"float32": "float16"})
    assert narrowing(before, half).message == "it takes other dtypes: {'x': 'float16'}, not {'x': 'float32'}"


def test_a_refutation_is_a_narrowing_and_no_verdict_is_not_known(outcome):
    before = locked(outcome())
    diagnostic = Diagnostic("divides", "must be even", file="nets.py", line=7, witness={"x.shape[0]": 1})
    found = narrowing(before, outcome(Result("refuted", "", (diagnostic,))))
    assert (found.message, str(found.file), found.line, found.kind) == (
        "it is refuted now, at x.shape[0] = 1: must be even",
        "nets.py",
        7,
        "narrowed",
    )
    assert narrowing(before, outcome(Result("vacuous", ""))).kind == "narrowed"
    assert narrowing(before, outcome(Result(None, "crashed"))).kind == "no verdict"


def test_what_cannot_be_decided_is_no_pass(outcome):
    """Where the new demand is not defined, nothing is known of what it accepts."""
    odd = proved(*DOMAIN, "64//(x.shape[0] - 6) != 1")
    assert narrowing(locked(outcome()), outcome(odd)) is not None


NETS = """
import torch
class Net(torch.nn.Module):
    def forward(self, x):
        return x.view(-1, 2, 4) * 2 if x.shape[0] > 32 else x.view(-1, 2, 4)
"""
PROGRAM = "from shapeproof.ci.cli import main; main()"


def run(folder, *command):
    program = [sys.executable, "-c", PROGRAM, *command]
    done = subprocess.run(program, cwd=folder, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    return done


COMPARED = [
    Compared("kept", None),
    Compared("net", Narrowing("x.shape[0] = 18 is lost", Path("shapeproof.toml"), 3, sizes={"x.shape[0]": 18})),
    Compared("open", Narrowing("it could not be decided", Path("shapeproof.toml"), 6, "undecided")),
]


@pytest.mark.parametrize("form", DiffFormat)
def test_each_form_of_a_comparison(tmp_path, monkeypatch, golden, form):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    (tmp_path / "shapeproof.toml").write_text(SPEC, encoding="utf-8")
    text = render_diff(COMPARED, ["new"], form)
    golden.check(f"ci/diff.{form}.txt", without_pages(text))


def test_a_comparison_is_read_by_others():
    log = sarif_pydantic.Sarif.model_validate_json(render_diff(COMPARED, [], DiffFormat.SARIF))
    assert [(result.rule_id, result.level.value) for result in log.runs[0].results] == [
        ("narrowed", "error"),
        ("undecided", "error"),
    ]
    document = json.loads(render_diff(COMPARED, ["new"], DiffFormat.JSON))
    assert (document["passed"], document["not_locked"]) == (False, ["new"])
    assert document["models"][1]["sizes"] == {"x.shape[0]": 18}


@pytest.mark.thorough
def test_nothing_is_locked_unless_all_passes(tmp_path, outcome):
    (tmp_path / "nets.py").write_text("", encoding="utf-8")
    outcome()
    done = run(tmp_path, "lock")
    assert done.returncode == 2
    assert done.stderr.endswith("nothing is locked: not every verdict is one that the spec accepts\n")
    assert not (tmp_path / NAME).exists()


@pytest.mark.thorough
def test_from_lock_to_diff(tmp_path, outcome):
    (tmp_path / "nets.py").write_text(NETS, encoding="utf-8")
    outcome()
    assert run(tmp_path, "diff").returncode == 2  # no lock yet
    assert run(tmp_path, "lock").returncode == 0
    contract = read_lock(tmp_path)["net"].contract
    assert (contract.domain, contract.regions) == (DOMAIN, ("x.shape[0] <= 32", "x.shape[0] >= 33"))
    write_lock(tmp_path, [outcome(), outcome(edits={"models.net": "models.old"})])
    outcome(edits={"max = 64": "max = 16", "[models.net]": '[models.new]\ntarget = "nets:absent"\n\n[models.net]'})
    done = run(tmp_path, "diff")
    assert (done.returncode, done.stdout.splitlines()) == (
        1,
        [
            "narrowed: net: x.shape[0] = 18 is no longer accepted: x.shape[0] <= 16 is required",
            "  --> shapeproof.toml:3   max = 16",
            "narrowed: old: it is locked, but in no spec any more",
            "  --> shapeproof.lock:1   {",
            "note: new is not locked; `shapeproof lock` adds it",
            "0 accept all that they did, 2 do not",
        ],
    )
