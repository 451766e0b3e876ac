"""`init`, `--fix`, `schema`, `--output-file` and the matcher: from a module to a spec that is proved.

Laws: what init writes is proved by check; what --fix writes was proved, and nothing else in the file changes.
"""

from __future__ import annotations

import json
import re
import time
import tomllib
from pathlib import Path

import pytest
import tomlkit
import torch
from typer.testing import CliRunner

from shapeproof.ci import cli
from shapeproof.ci.jobs import Check, Job, Outcome, Result, checks_of
from shapeproof.ci.process import worker
from shapeproof.ci.render import Format, render
from shapeproof.ci.running.repairs import repaired
from shapeproof.ci.specs.spec import load_spec
from shapeproof.ci.specs.tables import amended
from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.records.diagnostics import Diagnostic, Help

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "continuous-integration.md"


class Joined(torch.nn.Module):
    def forward(self, x, y):
        return x.reshape(-1, 16), torch.cat([x, y])


class Linear(torch.nn.Module):
    def forward(self, x, y):
        return x + torch.ones(3), y[5]


class Branch(torch.nn.Module):
    def forward(self, x):
        return x.sum(0) if bool(x.sum() > 0) else x.item()


class Pair(torch.nn.Module):
    def forward(self, x):
        return x.view(-1, 2, 4)


class Triple(torch.nn.Module):
    def forward(self, x):
        return x.view(-1, 3, 4)


def both():
    return torch.ones(4, 8), torch.ones(5, 8)


def named():
    return {"y": torch.ones(7, 2, dtype=torch.int64), "x": torch.ones(4, 3)}


def one():
    return torch.ones(6, 4)


def flag():
    return torch.ones(3), 4


def build():
    return Pair(), (torch.ones(2, 4),), {}, None


HERE = f"{__name__}:"


def init(*arguments):
    return CliRunner().invoke(cli.app, ["init", *arguments])


def outcomes_of(path):
    return [Outcome(check, worker._verdict(check.job, lambda _: None, time.monotonic())) for check in _checks(path)]


def _checks(path):
    return list(checks_of(load_spec(path)))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


# ---------------------------------------------------------------------- init

PROPOSED = {
    ("Joined", "both"): (
        {"x_0": {"min": 0}, "x_1": {"min": 0}, "y_0": {"min": 0}},
        ["x_0*x_1 % 16 == 0"],
        {"x": ["x_0", "x_1"], "y": ["y_0", "x_1"]},
    ),
    ("Linear", "named"): (
        {"x_0": {"min": 0}, "y_0": {"min": 6}, "y_1": {"min": 0}},
        [],
        {"x": ["x_0", 3], "y": ["y_0", "y_1"]},
    ),
}
"""Dims, relations and inputs: sizes that must be equal share a dim, and one that must be 3 is 3."""


@pytest.mark.parametrize(("names", "proposed"), PROPOSED.items(), ids=["joined", "linear"])
def test_what_init_writes_is_what_is_proved_and_check_proves_it(folder, names, proposed):
    done = init(*(f"{HERE}{name}" for name in names))
    assert (done.exit_code, done.stdout) == (0, ""), done.output
    document = tomllib.loads((folder / "shapeproof.toml").read_text(encoding="utf-8"))
    ((name, model),) = document["models"].items()
    shown = {key: given["dims"] for key, given in model["inputs"].items()}
    assert (name, document["dims"], model.get("relations", []), shown) == (names[0].lower(), *proposed)
    assert [outcome.result.status for outcome in outcomes_of(folder / "shapeproof.toml")] == ["proved"]


def test_a_target_that_declares_its_inputs_is_named_alone(folder):
    assert init(f"{HERE}build").exit_code == 0
    (check,) = _checks(folder / "shapeproof.toml")
    assert (check.name, check.job.target, check.job.inputs) == ("build", f"{HERE}build", None)


def test_a_spec_that_is_there_is_left_unless_forced(folder):
    path = folder / "shapeproof.toml"
    path.write_text("mine", encoding="utf-8")
    done = init(f"{HERE}build")
    assert (done.exit_code, done.stderr) == (2, "shapeproof: shapeproof.toml exists: --force overwrites it\n")
    assert path.read_text(encoding="utf-8") == "mine"
    assert init(f"{HERE}build", "--force").exit_code == 0
    load_spec(path)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("targets", "sentence"),
    [
        (["Pair"], "of a model alone `shapeproof init TARGET EXAMPLE` writes a spec"),
        (["one", "one"], "must return a torch.nn.Module where there is an example, not a Tensor"),
        (["Pair", "both"], "returned 2 tensors, and forward names 1 parameters"),
        (["Joined", "flag"], "is a int: a spec declares tensors"),
        (["Pair", "absent"], "has no `absent`"),
    ],
)
def test_what_no_spec_can_be_made_of_is_one_sentence(folder, targets, sentence):
    done = init(*(f"{HERE}{name}" for name in targets))
    assert (done.exit_code, done.stdout) == (2, "")
    assert sentence in done.stderr.splitlines()[-1]
    assert not (folder / "shapeproof.toml").exists()


def test_nothing_is_written_of_what_is_not_proved(folder):
    done = init(f"{HERE}Branch", f"{HERE}one")
    assert done.exit_code != 0
    assert not (folder / "shapeproof.toml").exists()


# ---------------------------------------------------------------------- --fix

SHARED = f"""\
# of all models
[dims]
n = {{ min = 1, max = 64 }}   # rows

[models."a pair"]
target = "{HERE}Pair"
inputs.x = {{ dtype = "float32", dims = ["n", 4] }}

[models.triple]
target = "{HERE}Triple"
inputs.x = {{ dtype = "float32", dims = ["n", 4] }}
"""


def test_models_that_share_a_dim_are_repaired_one_after_the_other(folder):
    """The fault: two helps for one dim, each proved alone, of which the last would have won."""
    path = folder / "shapeproof.toml"
    path.write_text(SHARED, encoding="utf-8")
    (first,) = repaired(outcomes_of(path))
    assert [line for line in first.splitlines() if re.match(r"[-+](?![-+])", line)] == [
        "-n = { min = 1, max = 64 }   # rows",
        "+n = { min = 1, max = 64, multiple_of = 2}   # rows",
    ]
    assert [outcome.result.status for outcome in outcomes_of(path)] == ["proved", "refuted"]
    assert repaired(outcomes_of(path))
    assert load_spec(path).spec.dims["n"].multiple_of == 6
    assert [outcome.result.status for outcome in outcomes_of(path)] == ["proved", "proved"]
    assert repaired(outcomes_of(path)) == []


LAYOUTS = {
    "tables": "[dims.n]\nmin = 1 # one\n\n[models.a]\ntarget = 'a:b'\n",
    "inline": "dims = { n = { min = 1 } }\nmodels = { a = { target = 'a:b' } }\n",
    "dotted": "dims.n.min = 1\nmodels.a.target = 'a:b'\n",
    "out of order": "[dims.n]\nmin = 1\n\n[models.a]\ntarget = 'a:b'\n\n[dims.m]\nmax = 3\n",
    "the model first": "[models.a]\ntarget = 'a:b'\n\n[dims]\nn.min = 1\n",
    "windows": "[dims.n]\r\nmin = 1\r\n[models.a]\r\ntarget = 'a:b'\r\n",
    "an empty dim": "[dims.n]\n[models.a]\ntarget = 'a:b'\nrelations = [\n  'n < 5', # five\n]\n",
}
HELPS = ("[dims.n]\nmin = 2\none_of = [2, 4]", "[models.a]\nrelations = ['n != 3']")


@pytest.mark.quick
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_help_changes_its_keys_and_nothing_else(layout):
    before = tomllib.loads(LAYOUTS[layout])
    before["dims"]["n"] |= {"min": 2, "one_of": [2, 4]}
    before["models"]["a"] |= {"relations": ["n != 3"]}
    after = amended(LAYOUTS[layout], [HELPS])
    assert tomllib.loads(after) == before
    assert ("# one" in after) == ("# one" in LAYOUTS[layout])


def test_a_layout_that_tomlkit_writes_otherwise_is_refused():
    """The fault, of tomlkit: keys under a header came under another one."""
    layout = "models.b.target = 'a:b'\ndims.m = { min = 1 }\n[dims.n]\nmodels.a.target = 'a:b'\n"
    with pytest.raises(UsageError, match="write it there yourself"):
        amended(layout, [("[dims.m]\nmultiple_of = 2", "[models.a]\nrelations = ['n != 3']")])


def outcome(path, status, *helps, **job):
    result = Result(status, "", (Diagnostic("bound", "a", help=helps),))
    job = Job(root=str(path.parent), target="a:b", **job)
    return Outcome(Check("a", path, 1, "proved", accept_undecided=False, job=job), result)


OF_PYTHON = Help('n = Dim("n", min=2)', "proved", ("n >= 2",))
OF_THE_MODEL = Help("torch._check(u0 >= 2)", "proved")
OF_THE_SPEC = Help("[dims.n]\nmin = 2", "proved", ("n >= 2",))


@pytest.mark.quick
@pytest.mark.parametrize(
    ("status", "help_", "job"),
    [
        ("refuted", OF_PYTHON, {}),
        ("refuted", OF_PYTHON, {"inputs": {}, "operator": True}),
        ("refuted", OF_THE_MODEL, {"inputs": {}}),
        ("proved", OF_THE_SPEC, {"inputs": {}}),
    ],
)
def test_what_no_proved_line_of_a_spec_settles_is_left(tmp_path, status, help_, job):
    path = tmp_path / "shapeproof.toml"
    path.write_text(LAYOUTS["tables"], encoding="utf-8")
    assert repaired([outcome(path, status, help_, **job)]) == []
    assert path.read_text(encoding="utf-8") == LAYOUTS["tables"]


def test_a_spec_that_cannot_be_written_is_no_verdict(tmp_path):
    path = tmp_path / "gone" / "shapeproof.toml"
    with pytest.raises(UsageError, match="cannot be read"):
        repaired([outcome(path, "refuted", OF_THE_SPEC, inputs={})])


# ---------------------------------------------------------------------- forms


def test_the_matcher_of_the_page_finds_file_line_and_message(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (task,) = json.loads(
        re.search(r"(?ms)^<!-- file: .vscode/tasks.json -->\n```json\n(.*?)^```", PAGE.read_text("utf-8"))[1]
    )["tasks"]
    pattern = task["problemMatcher"]["pattern"]
    found = Diagnostic("divides", "a: must\nnote", file=str(tmp_path / "nets.py"), line=7)
    path = tmp_path / "shapeproof.toml"
    lines = render(
        [
            Outcome(outcome(path, "refuted").check, Result("refuted", "", (found,))),
            Outcome(outcome(path, None).check, Result(None, "no weights\nat all")),
            outcome(path, "proved"),
        ],
        Format.GCC,
    ).splitlines()
    read = [re.search(pattern["regexp"], line) for line in lines]
    assert task["command"].endswith("--format gcc --cached")
    parts = [[each[pattern[key]] for key in ("file", "line", "column", "severity", "message")] for each in read]
    assert parts == [
        ["nets.py", "7", "1", "error", "a: a: must [divides]"],
        ["shapeproof.toml", "1", "1", "error", "a: no weights [no-verdict]"],
    ]


@pytest.mark.quick
@pytest.mark.parametrize("form", Format)
def test_a_result_is_written_where_it_is_asked_for(folder, monkeypatch, form):
    """With the exit status of the verdict; GitHub's commands are in a log, and need no escape in a file."""
    found = outcome(folder / "shapeproof.toml", "refuted", OF_PYTHON)
    monkeypatch.setattr("shapeproof.ci.commands.check.checked", lambda *_, **__: [found])
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    done = CliRunner().invoke(cli.app, ["check", "--format", form.value, "-o", "result"])
    assert (done.exit_code, done.output) == (1, "")
    assert (folder / "result").read_text(encoding="utf-8") == f"{render([found], form)}\n"


@pytest.mark.usefixtures("folder")
def test_where_a_result_cannot_be_written_there_is_no_verdict(monkeypatch):
    monkeypatch.setattr("shapeproof.ci.commands.check.checked", lambda *_, **__: [])
    done = CliRunner().invoke(cli.app, ["check", "--output-file", "gone/result"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == "shapeproof: gone/result cannot be written: No such file or directory\n"


def test_the_schema_is_the_one_that_is_installed():
    done = CliRunner().invoke(cli.app, ["schema"])
    path = Path(cli.__file__).with_name("spec.schema.json")
    assert (done.exit_code, json.loads(done.stdout)) == (0, json.loads(path.read_text(encoding="utf-8")))


def test_tomlkit_writes_what_tomllib_reads():
    text = 'a "quoted" \\ Ω\x7f\n'
    assert tomllib.loads(f"a = {tomlkit.item([text, 1]).as_string()}") == {"a": [text, 1]}
