"""The GitHub Action and the pre-commit hooks run commands that there are, with what they are given."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
RUN = [sys.executable, "-c", "from shapeproof.ci.cli import main; main()"]


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook["id"])
def test_a_hook_runs_a_command_that_there_is(hook, tmp_path):
    """As pre-commit does: the entry, then the arguments. The malformed spec shows that they were understood."""
    (tmp_path / "shapeproof.toml").write_text("[models]\n", encoding="utf-8")
    program, *arguments = [*shlex.split(hook["entry"]), *hook["args"]]
    assert program == "shapeproof"
    done = subprocess.run([*RUN, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "shapeproof: shapeproof.toml:1: `models` is empty\n")


@pytest.fixture
def check(tmp_path):
    """The step of the action that checks, with its inputs, in a shell where `shapeproof` prints its arguments."""
    script = tmp_path / "shapeproof"
    script.write_text('#!/bin/sh\nfor each in "$@"; do echo "<$each>"; done\n', encoding="utf-8")
    script.chmod(0o755)

    def run(**inputs):
        (step,) = (step for step in ACTION["runs"]["steps"] if step["name"] == "Check")
        given = {name: entry["default"] for name, entry in ACTION["inputs"].items()} | inputs
        texts = {name: text.split("inputs.")[1].rstrip(" }") for name, text in step["env"].items()}
        env = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"} | {n: given[key] for n, key in texts.items()}
        shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        return subprocess.run(shell, env=env, capture_output=True, text=True, check=True).stdout.split()

    return run


def test_the_action_passes_its_inputs_on_as_data(check):
    assert check() == ["<check>", "<--format>", "<github>", "<-->"]
    assert check(specs="a.toml b.toml", **{"changed-since": "$(id)"}) == [
        "<check>",
        "<--format>",
        "<github>",
        "<--changed-since=$(id)>",
        "<-->",
        "<a.toml>",
        "<b.toml>",
    ]


def test_what_the_action_calls_is_understood(tmp_path):
    (tmp_path / "a.toml").write_text("[models]\n", encoding="utf-8")
    arguments = ["check", "--format", "github", "--changed-since=HEAD", "--", "a.toml"]
    done = subprocess.run([*RUN, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "shapeproof: a.toml:1: `models` is empty\n")
