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


def step_of(name, folder, programs, given=(), **env):
    """Run a step of the action in a shell where these programs stand for those of their names."""
    for program, text in programs.items():
        (folder / "bin").mkdir(exist_ok=True)
        (folder / "bin" / program).write_text(f"#!/bin/bash\n{text}\n", encoding="utf-8")
        (folder / "bin" / program).chmod(0o755)
    (step,) = (step for step in ACTION["runs"]["steps"] if step["name"] == name)
    inputs = {key: entry["default"] for key, entry in ACTION["inputs"].items()} | dict(given)
    texts = {key: text.partition("inputs.")[2].rstrip(" }") for key, text in step.get("env", {}).items()}
    own = {key: inputs[name] for key, name in texts.items() if name}
    shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    env = os.environ | {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}"} | own | env
    return subprocess.run(shell, cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.fixture
def check(tmp_path):
    """The step of the action that checks, with its inputs, in a shell where `shapeproof` prints its arguments."""

    def run(**inputs):
        return step_of("Check", tmp_path, {"shapeproof": 'printf "<%s>\\n" "$@"'}, inputs).stdout.split()

    return run


def test_the_action_brings_no_torch_in(tmp_path):
    """The fault: a job without torch got the newest, of some gigabytes; one with a torch could lose it."""
    without = 'if [ "$1" = -c ]; then exit 1; fi; echo "$@"'
    done = step_of("Install", tmp_path, {"python": without}, GITHUB_ACTION_PATH="here")
    assert (done.returncode, done.stdout.partition("::")[2].partition(":")[0]) == (2, "error title=shapeproof")
    with_one = 'if [ "$1" = -c ]; then echo torch==2.14.0; else echo "$1 $2 $3 $4 $6: $(cat "$5")"; fi'
    done = step_of("Install", tmp_path, {"python": with_one}, GITHUB_ACTION_PATH="here")
    assert (done.returncode, done.stdout) == (0, "-m pip install --constraint here: torch==2.14.0\n")


GH = """
case "$*" in
    *--jq*) echo "$EARLIER" ;;
    *) printf '%s\\n' "$@" > asked; cp "${!##body=@}" text ;;
esac
"""
DIFF = 'cat shapeproof.lock; echo "narrowed: pairs: \\`x\\`"; exit 1'


@pytest.fixture
def pull_request(tmp_path):
    """A repository whose head has another lock than its base."""

    def git(*arguments):
        settings = ("-c", "user.name=x", "-c", "user.email=x@x", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *settings, *arguments], cwd=tmp_path, check=True, capture_output=True)  # noqa: S607

    git("init", "--initial-branch", "main")
    for text in ("of the base", "of the head"):
        (tmp_path / "shapeproof.lock").write_text(f"{text}\n", encoding="utf-8")
        git("add", "shapeproof.lock")
        git("commit", "-m", text)
    git("update-ref", "refs/remotes/origin/main", "HEAD~1")
    git("update-ref", "refs/remotes/origin/empty", "HEAD")
    return tmp_path


def comment(folder, base="main", gh=GH, **env):
    place = {"GITHUB_BASE_REF": base, "GITHUB_REPOSITORY": "o/r", "NUMBER": "7", "GH_TOKEN": "", "EARLIER": ""}
    return step_of("Comment", folder, {"gh": gh, "shapeproof": DIFF}, **place | env)


@pytest.mark.parametrize("earlier", ["", "https://api/comments/3"])
def test_a_pull_request_is_told_what_it_narrows_beside_its_base(pull_request, earlier):
    assert comment(pull_request, EARLIER=earlier).returncode == 0
    assert (pull_request / "text").read_text(encoding="utf-8") == (
        "<!-- shapeproof -->\nWhat the models accept, beside `main`:\n"
        "~~~~~~~~text\nof the base\nnarrowed: pairs: `x`\n~~~~~~~~\n"
    )
    method, *rest = (pull_request / "asked").read_text(encoding="utf-8").split()[1:]
    place = ["--method", "PATCH", earlier] if earlier else ["repos/o/r/issues/7/comments"]
    assert [method, *rest][:-1] == [*place, "--field"]
    assert (pull_request / "shapeproof.lock").read_text(encoding="utf-8") == "of the head\n"


def test_where_nothing_may_be_written_a_notice_says_what_is_needed(pull_request):
    done = comment(pull_request, gh="exit 1")
    assert (done.returncode, done.stdout.count("pull-requests: write")) == (0, 1)
    assert (pull_request / "shapeproof.lock").read_text(encoding="utf-8") == "of the head\n"


def test_without_a_lock_in_the_base_nothing_is_said(pull_request):
    done = comment(pull_request, base="absent")
    assert (done.returncode, done.stdout, (pull_request / "text").exists()) == (0, "", False)


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
