"""`shapeproof seen` merges profiles and drafts a spec; a spec is held against what was seen."""

from __future__ import annotations

import random

import pytest
import torch
from typer.testing import CliRunner

from shapeproof.ci import cli
from shapeproof.ci.specs.seen_spec import spec_text
from shapeproof.ci.specs.spec import load_spec
from shapeproof.constraints.errors import UsageError
from shapeproof.seen import Seen

NETS = """
import torch

class Scores(torch.nn.Module):
    def forward(self, x, y, z):
        return (x + y).sum() + z.sum()
"""


def profile(seed, number=40):
    seen, chance = Seen(), random.Random(seed)
    for _ in range(number):
        n, m = chance.randint(1, 64), chance.randint(1, 9)
        seen.add((torch.empty(8 * n, 16), torch.empty(8 * n, 16), torch.empty(16 * n + 3, 8 * n + m)))
    return seen


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "nets.py").write_text(NETS)
    monkeypatch.chdir(tmp_path)
    profile(1).save("a.json")
    profile(2).save("b.json")
    return tmp_path


def shapeproof(*args):
    return CliRunner().invoke(cli.app, ["seen", *args])


def test_profiles_are_merged_and_printed(folder):
    done = shapeproof("b.json", "a.json", "a.json", "--save", "both.json")
    both = profile(1) | profile(2)
    assert (done.exit_code, done.stdout) == (0, f"{both}\n")
    assert Seen.load(folder / "both.json") == both


def test_the_spec_that_is_drafted_says_what_was_seen(folder):
    done = shapeproof("a.json", "b.json", "--spec", "nets:Scores")
    assert done.exit_code == 0, done.stderr
    (folder / "shapeproof.toml").write_text(done.stdout)
    spec = load_spec(folder / "shapeproof.toml").spec
    (model,) = spec.models.values()
    assert {name: given.dims for name, given in model.inputs.items()} == {
        "x": ["x_0", 16],
        "y": ["x_0", 16],
        "z": ["2*x_0 + 3", "z_1"],
    }
    assert (spec.dims["x_0"].multiple_of, spec.dims["z_1"].multiple_of) == (8, None)
    assert all(spec.dims["x_0"].min <= 8 * n <= spec.dims["x_0"].max for n in (10, 30, 60))
    assert model.relations == []


def test_few_calls_are_no_claim():
    seen = Seen()
    for n in (4, 8):
        seen.add((torch.empty(n), torch.empty(2 * n)), names=("x", "y"))
    text = spec_text(seen, "nets:Two")
    assert "multiple_of" not in text
    assert "2*" not in text


@pytest.mark.quick
@pytest.mark.parametrize(
    ("calls", "match"),
    [
        ([(3,)], "`args\\[0\\]` is int: a spec declares tensors"),
        ([([torch.ones(2)],)], "`args\\[0\\]\\[0\\]` is 1-dimensional float32: a spec declares tensors"),
        ([(torch.ones(2),), (torch.ones(2, 2),)], "expected calls of one kind, got 2"),
        ([], "expected calls of one kind, got 0"),
    ],
)
def test_what_a_spec_cannot_say_is_one_sentence(calls, match):
    seen = Seen()
    for args in calls:
        seen.add(args)
    with pytest.raises(UsageError, match=match):
        spec_text(seen, "nets:Scores")


@pytest.mark.usefixtures("folder")
def test_a_file_that_is_no_profile_is_one_sentence():
    done = shapeproof("nets.py")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "nets.py is not a saved profile of what was seen" in done.stderr


@pytest.mark.thorough
def test_a_spec_is_held_against_what_was_seen(folder):
    """One model serves all of it, the other lacks the largest; a profile that cannot be read is no verdict."""
    drafted = shapeproof("a.json", "--spec", "nets:Scores").stdout
    narrow = drafted.replace("max = ", "max = 20 # ", 1)
    assert narrow != drafted
    for name, text in (("whole.toml", drafted), ("narrow.toml", narrow)):
        (folder / name).write_text(text.replace('target = "nets:Scores"', 'target = "nets:Scores"\nseen = "a.json"'))
    runner = CliRunner()
    done = runner.invoke(cli.app, ["check", "whole.toml", "narrow.toml"])
    assert done.exit_code == 1, done.output
    assert "1 passed, 1 failed" in done.stdout
    assert "error[seen]: an input that was seen is not served" in done.stdout
    (folder / "a.json").write_text("{}")
    done = runner.invoke(cli.app, ["check", "whole.toml"])
    assert done.exit_code == 2
    assert "a.json is not a saved profile of what was seen" in done.output
