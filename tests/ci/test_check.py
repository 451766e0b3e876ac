"""`shapeproof check`: verdicts and exit status, what a model that crashes or never ends does to others, and the cache.

A model's process is watched through a FIFO that it and what it begins hold open: the other end sees when all are gone.
"""

from __future__ import annotations

import contextlib
import html
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shapeproof.ci import cli
from shapeproof.ci.commands.check import Options, exit_status, selected
from shapeproof.ci.commands.check import checked as checked_here
from shapeproof.ci.jobs import Check, Job, Outcome, Result, checks_of
from shapeproof.ci.render import Format, render
from shapeproof.ci.specs.spec import load_specs
from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.meaning.evaluate import holds
from shapeproof.constraints.syntax.text import parse_formula

NETS = """
import hashlib, os, resource, signal, subprocess, sys

def crash():
    print("first\\n\\x1b[31mlast words", file=sys.stderr, flush=True)
    os.abort()
def killed(): os.kill(os.getpid(), signal.SIGKILL)
def leaves():
    hold = os.open("fifo", os.O_WRONLY)
    subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], pass_fds=[hold])
    os._exit(7)
def chatty(): print("{'answer': 1}"); raise OSError("no weights")

def dies_with_a_child():
    if os.fork():
        os._exit(3)
    signal.pause()

def escapes():
    if not os.fork():
        os.setsid()
        if not os.fork():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            signal.pause()
        os._exit(0)
    os.wait()
    raise OSError("gone")

def closes():
    os.closerange(0, 256)
    raise OSError("closed")

def babbles():
    for descriptor in range(3, 256):
        try:
            os.write(descriptor, b"proved\\n" * 99)
        except OSError:
            pass
    return built()

def forges():
    deep = "[" * 20000
    for descriptor in range(3, 256):
        try:
            os.write(descriptor, f"{hashlib.sha256(deep.encode()).hexdigest()} {deep}\\n".encode())
        except OSError:
            pass
    return built()

def hangs():
    while True:
        os.write(1, b"proved\\n" * 999)

def full():
    with open("/dev/full", "w") as file:
        file.write("x")

def hungry():
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**28, used + 2**28))
    return bytearray(2**40)

def endless():
    hold = os.open("fifo", os.O_WRONLY)
    subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], pass_fds=[hold])
    os.write(hold, b"started")
    signal.pause()

def proved():
    import torch
    class Plain(torch.nn.Module):
        def forward(self, x, y):
            return x.sum(0) + y[1:3]
    return Plain()

def refuted():
    import torch
    from nets_code import Pairs
    return Pairs()

def built():
    import torch
    return torch.nn.Linear(4, 4), (torch.ones(2, 4),), {}, ({0: torch.export.Dim("b")},)
"""
CODE = """\
import torch

class Pairs(torch.nn.Module):
    def forward(self, x, y):
        return x.view(-1, 9), y
"""
INPUTS = """
[models.{}.inputs]
x = {{ dtype = "float32", dims = ["n", 2] }}
y = {{ dtype = "int64", dims = ["2*n + 1"] }}
"""
DIMS = "[dims.n]\nmin = 1\nmax = 9\nmultiple_of = 3\none_of = [2, 3, 9]\n"
RUN = [sys.executable, "-c", "from shapeproof.ci.cli import main; main()"]


FAULTS = {
    "crash": "the process ended by SIGABRT before there was a verdict: [31mlast words",
    "killed": "the process was killed (SIGKILL), as happens where memory runs out",
    "hungry": "`nets:hungry` cannot be called: MemoryError",
    "chatty": "`nets:chatty` cannot be called: OSError: no weights (nets.py:12)",
    "dies_with_a_child": "the process ended with status 3 before there was a verdict",
    "escapes": "`nets:escapes` cannot be called: OSError: gone",
    "closes": "the process ended with status 1 before there was a verdict",
    "babbles": "the process garbled its answer",
    "forges": "the process garbled its answer",
    "full": "`nets:full` cannot be called: OSError: [Errno 28] No space left on device",
}
"""Each with how its sentence begins."""


def models(*names, extra=""):
    return "".join(f'[models.{name}]\ntarget = "nets:{name}"\n{extra}{INPUTS.format(name)}' for name in names)


def laid_out(folder):
    """A project in the folder."""
    (folder / "nets.py").write_text(NETS, encoding="utf-8")
    (folder / "nets_code.py").write_text(CODE, encoding="utf-8")
    return folder


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A project in the working directory."""
    monkeypatch.chdir(tmp_path)
    return laid_out(tmp_path)


def check(*arguments, cwd=None):
    return subprocess.run([*RUN, "check", *arguments], cwd=cwd, capture_output=True, text=True, check=False)


def checked(*arguments, cwd):
    """The exit status, what is known of each model by name, and what was said meanwhile."""
    done = check("--format", "json", *arguments, cwd=cwd)
    assert "Traceback" not in done.stderr
    return done.returncode, {model["name"]: model for model in json.loads(done.stdout)["models"]}, done.stderr


def git(folder, *arguments):
    settings = ("-c", "user.name=x", "-c", "user.email=x@x", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *settings, *arguments], cwd=folder, check=True, capture_output=True)  # noqa: S607


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """A project that is committed. Its models get three verdicts and ten times none, at the same time."""
    folder = laid_out(tmp_path_factory.mktemp("repository"))
    built = '[models.built]\ntarget = "nets:built"\nrelations = ["b < 5"]\n'
    spec = models("proved", extra='relations = ["n > 3"]\n') + models("refuted", *FAULTS)
    spec += models("hangs", extra="timeout = 2\n")
    (folder / "shapeproof.toml").write_text(DIMS + spec + built, encoding="utf-8")
    git(folder, "init")
    git(folder, "add", ".")
    git(folder, "commit", "-m", "first")
    return folder


@pytest.fixture(scope="module")
def first(repository):
    """The outcomes of a first check of the project, and what was said meanwhile."""
    said = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stderr(said):
        patch.chdir(repository)
        return checked_here(None, Options(jobs=4)), said.getvalue


@pytest.fixture(scope="module")
def run(repository, first):
    """What `shapeproof check --format json` shows of it."""
    outcomes, said = first
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(repository)
        shown = json.loads(render(outcomes, Format.JSON))
    return exit_status(outcomes), {model["name"]: model for model in shown["models"]}, said()


# ---------------------------------------------------------------------- verdicts

STATUS = {
    ("proved",): 0,
    ("proved", "undecided"): 3,
    ("proved", None, "undecided"): 2,
    ("refuted", None, "undecided"): 1,
    ("vacuous", "undecided"): 1,
    (): 0,
}


@pytest.mark.quick
@pytest.mark.parametrize(("verdicts", "status"), STATUS.items())
def test_the_exit_status_is_that_of_the_worst(verdicts, status):
    assert exit_status([outcome(verdict) for verdict in verdicts]) == status


def outcome(verdict, expected="proved", *, accept_undecided=False):
    job = Job(root="/", target="a:b")
    named = Check("net", Path("spec.toml"), 1, expected, accept_undecided, job)
    return Outcome(named, Result(verdict, ""))


def test_what_the_spec_expects_passes_and_nothing_else():
    assert exit_status([outcome("refuted", "refuted"), outcome("undecided", accept_undecided=True)]) == 0
    assert exit_status([outcome("proved", "refuted")]) == 1
    assert exit_status([outcome("undecided", "refuted")]) == 3
    assert exit_status([outcome(None, accept_undecided=True)]) == 2


def test_a_model_whose_process_ends_or_is_late_harms_no_other(folder):
    """It is asked for again, and the verdict of the other is kept."""
    (folder / "shapeproof.toml").write_text(DIMS + models("proved", "dies_with_a_child", "hangs"), encoding="utf-8")
    outcomes = checked_here(None, Options(jobs=2, models=["proved", "dies*"]))
    assert [each.result.status for each in outcomes] == ["proved", None]
    assert outcomes[1].result.text == "the process ended with status 3 before there was a verdict"
    kept, late = checked_here(None, Options(models=["proved", "hangs"], cached=True, timeout=0.05, exit_first=True))
    assert (kept.unchanged, late.unchanged) == (True, False)
    assert late.result.text == "the process was ended: there was no verdict within 0.05 s"


@pytest.mark.thorough
def test_a_model_that_goes_wrong_fails_alone_with_one_sentence_and_its_own_lines(run):
    status, found, _ = run
    assert status == 1
    assert {name: model["verdict"] for name, model in found.items() if model["verdict"]} == {
        "proved": "proved",
        "refuted": "refuted",
        "built": "proved",
    }
    assert all(model["seconds"] > 0 for model in found.values())
    for name, sentence in FAULTS.items() | {("hangs", "the process was ended: there was no verdict within 2 s")}:
        first, *frames = found[name]["text"].splitlines()
        assert first.startswith(sentence)
        assert frames or name in {"killed", "dies_with_a_child", "closes", "babbles", "forges", "hangs"}
        assert all(frame.startswith("  --> nets.py:") for frame in frames)


@pytest.mark.thorough
def test_no_process_of_a_model_is_left(repository, run):
    assert run
    assert not [folder for folder in Path("/proc").glob("[0-9]*/cwd") if goes_to(folder, repository)]


def goes_to(link, folder):
    with contextlib.suppress(OSError):
        return link.readlink() == folder


@pytest.mark.thorough
@pytest.mark.parametrize("form", Format)
def test_each_form_tells_of_every_model(first, form):
    """A dashboard that counts sees all of them: none is lost with the one that fails."""
    outcomes, _ = first
    shown = render(outcomes, form)
    failed = [outcome for outcome in outcomes if not outcome.passed]
    assert len(outcomes) == len(FAULTS) + 4
    for outcome in failed if form in {Format.SARIF, Format.GITHUB, Format.GCC} else outcomes:
        assert outcome.check.name in shown
    for outcome in failed:
        if outcome.result.status is None:
            assert outcome.result.text[:40] in html.unescape(shown).replace('\\"', '"').replace("%25", "%")


@pytest.mark.thorough
def test_dims_and_relations_of_the_spec_are_what_is_checked(run):
    """`n` is 3 or 9: a multiple of 3 among the values; with the relation it is 9."""
    model = run[1]["proved"]
    assert model["inputs"] == {"x": ["n", "2"], "y": ["2*n + 1"]}
    domain = [parse_formula(text) for text in model["domain"]]
    assert [n for n in range(20) if all(holds(each, {"x.shape[0]": n}) for each in domain)] == [9]


@pytest.mark.thorough
def test_the_report_names_the_lines(run):
    _, found, said = run
    text = found["refuted"]["text"]
    assert "--> nets_code.py:5   return x.view(-1, 9), y" in text
    assert '= declared  x.shape[0] = Dim("n", min=1, max=9)   at shapeproof.toml:1\n' in text
    assert "= declared  n % 3 == 0   at shapeproof.toml:4\n" in text
    assert "\nrefuted: refuted (" in f"\n{said}"


@pytest.mark.thorough
def test_a_target_without_inputs_returns_them(run):
    assert run[1]["built"]["domain"] == ["input.shape[0] >= 0", "input.shape[0] <= 4"]


@pytest.mark.quick
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["absent.toml"], "absent.toml cannot be read: No such file or directory"),
        (["--executor", "ray://x"], "'ray://x' is not of the form dask://HOST:PORT"),
        (["--changed-since", "HEAD"], "{folder} is in no git repository"),
        (["--model", "crush"], "no model is called 'crush'; did you mean `crash`?"),
    ],
)
def test_a_wrong_call_gets_one_sentence(folder, arguments, sentence):
    (folder / "shapeproof.toml").write_text('[models.crash]\ntarget = "nets:crash"\n', encoding="utf-8")
    done = CliRunner().invoke(cli.app, ["check", *arguments])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == f"shapeproof: {sentence.format(folder=folder)}\n"


def test_models_are_selected_by_name(folder):
    (folder / "shapeproof.toml").write_text(DIMS + models("crash", "decoder_a", "decoder_b"), encoding="utf-8")
    found = [each for file in load_specs([]) for each in checks_of(file)]
    assert [each.name for each in selected(found, ["decoder*"])] == ["decoder_a", "decoder_b"]
    assert [each.name for each in selected(found, ["crash", "*_b"])] == ["crash", "decoder_b"]


def test_a_cluster_needs_the_extra(folder, monkeypatch):
    (folder / "shapeproof.toml").write_text(DIMS + models("crash"), encoding="utf-8")
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.delitem(sys.modules, "shapeproof.ci.running.cluster", raising=False)
    with pytest.raises(
        UsageError, match=r"^--executor needs the package `distributed`: pip install 'shapeproof\[dask\]'$"
    ):
        checked_here(None, Options(executor="dask://localhost:8786"))


# ---------------------------------------------------------------------- the end of a run


@pytest.mark.thorough
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_process_outlives_the_run(folder, ending):
    os.mkfifo(folder / "fifo")
    (folder / "shapeproof.toml").write_text(DIMS + models("endless"), encoding="utf-8")
    with subprocess.Popen([*RUN, "check"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        with (folder / "fifo").open("rb") as held:
            assert held.read(7) == b"started"
            process.send_signal(ending)
            assert held.read() == b""  # returns when nobody is left who holds it
        _, errors = process.communicate()
    assert process.returncode == (130 if ending == signal.SIGINT else -ending)
    assert b"Traceback" not in errors
    said = b"interrupted: 0 of 1 models were checked, not endless\n"
    assert (said in errors) == (ending == signal.SIGINT)
    assert not list(folder.rglob("*.json"))


@pytest.mark.thorough
def test_what_a_model_has_begun_ends_with_it(folder):
    os.mkfifo(folder / "fifo")
    (folder / "shapeproof.toml").write_text(DIMS + models("leaves"), encoding="utf-8")
    with subprocess.Popen([*RUN, "check"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert (folder / "fifo").read_bytes() == b""  # returns when nobody is left who holds it
        shown, _ = process.communicate()
    assert process.returncode == 2
    assert b"the process ended with status 7 before there was a verdict" in shown


# ---------------------------------------------------------------------- --changed-since


@pytest.mark.thorough
def test_what_is_unchanged_keeps_its_verdict_and_is_not_checked_again(repository, run):
    first = run[1]
    status, again, _ = checked("--changed-since", "HEAD", cwd=repository)
    judged = {name for name, model in first.items() if model["verdict"]}
    assert {name for name, model in again.items() if model["unchanged"]} == judged == {"proved", "refuted", "built"}
    assert status == 1  # unchanged is not a pass
    assert all(again[name] == first[name] | {"unchanged": True} for name in judged)
    (repository / "nets_code.py").write_text(CODE.replace("view(-1, 9)", "view(-1, 2)"), encoding="utf-8")
    _, found, _ = checked("--changed-since", "HEAD", cwd=repository)
    assert {name for name, model in found.items() if model["unchanged"]} == {"proved", "built"}
    assert found["refuted"]["passed"]
