"""The GitHub Action and the pre-commit hooks run commands that there are, with what they are given."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from pre_commit.clientlib import load_manifest

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
PAGE = (ROOT / "docs" / "how-to" / "continuous-integration.md").read_text(encoding="utf-8")
RUN = [sys.executable, "-c", "from shapeproof.ci.cli import main; main()"]


@pytest.mark.thorough
@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook["id"])
def test_a_hook_runs_a_command_that_there_is(hook, tmp_path):
    """As pre-commit does: the entry, then the arguments. The malformed spec shows that they were understood."""
    (tmp_path / "shapeproof.toml").write_text("[models]\n", encoding="utf-8")
    program, *arguments = [*shlex.split(hook["entry"]), *hook["args"]]
    assert program == "shapeproof"
    done = subprocess.run([*RUN, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "shapeproof: shapeproof.toml:1: `models` is empty\n")


FILES = dict(re.findall(r"(?ms)^<!-- file: (\S+) -->\n```\w*\n(.*?)^```$", PAGE))
"""What the page says is in which file."""


def test_the_manifest_is_one_and_the_page_writes_its_hooks_out():
    assert [hook["id"] for hook in load_manifest(ROOT / ".pre-commit-hooks.yaml")] == [hook["id"] for hook in HOOKS]
    (repository,) = yaml.safe_load(FILES[".pre-commit-config.yaml"])["repos"]
    assert repository["hooks"] == [{key: hook[key] for key in hook if key != "description"} for hook in HOOKS]


@pytest.mark.thorough
def test_pre_commit_runs_the_hooks(tmp_path):
    """As the page has them, in a project whose first commit is about to be made."""
    program = tmp_path / "bin" / "shapeproof"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\nfrom shapeproof.ci.cli import main; main()\n", encoding="utf-8")
    program.chmod(0o755)
    project = tmp_path / "project"
    project.mkdir()
    (project / ".pre-commit-config.yaml").write_text(FILES[".pre-commit-config.yaml"], encoding="utf-8")
    (project / "shapeproof.toml").write_text('[models.net]\ntarget = "absent:Net"\n', encoding="utf-8")
    path = f"{program.parent}:{os.environ['PATH']}"
    env = os.environ | {"PATH": path, "PRE_COMMIT_HOME": str(tmp_path / "home")}
    for command in (["git", "init"], ["git", "add", "."]):
        subprocess.run(command, cwd=project, check=True, capture_output=True)
    run = [sys.executable, "-m", "pre_commit", "run"]
    done = subprocess.run(run, cwd=project, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "net: no verdict" in done.stdout  # of shapeproof-check
    assert "shapeproof.lock cannot be read; `shapeproof lock` writes it" in done.stdout  # of shapeproof-diff


def test_the_workflow_of_the_page_uses_the_action_with_inputs_that_it_has():
    workflow = yaml.safe_load(FILES[".github/workflows/shapes.yml"])
    (step,) = (step for step in workflow["jobs"]["shapes"]["steps"] if step.get("uses", "").startswith("./"))
    assert set(step["with"]) <= set(ACTION["inputs"])
    named = re.search(r"Its inputs are (.*);", PAGE)[1]
    assert set(re.findall(r"`([\w-]+)`", named)) == set(ACTION["inputs"])


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


@pytest.mark.thorough
def test_what_the_action_calls_is_understood(tmp_path):
    (tmp_path / "a.toml").write_text("[models]\n", encoding="utf-8")
    arguments = ["check", "--format", "github", "--changed-since=HEAD", "--", "a.toml"]
    done = subprocess.run([*RUN, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "shapeproof: a.toml:1: `models` is empty\n")
