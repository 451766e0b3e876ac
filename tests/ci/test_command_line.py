"""What a newcomer types: targets by path, ids, misspelt words, help, completion; tracebacks, -x, -v, hooks, interrupts.

A module of its own for each target, in processes of their own where the import system matters.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from shapeproof.ci import cli
from shapeproof.ci.commands.explain import instead
from shapeproof.ci.pages import pages
from shapeproof.ci.process import subjects
from shapeproof.ci.specs.spec_errors import FORM

RUN = [sys.executable, "-c", "from shapeproof.ci.cli import main; main()"]
COMMANDS = ("init", "check", "lock", "diff", "explain", "ship", "verify", "recheck", "header", "zoo", "schema", "rule")
ROOT = Path(__file__).parents[2]


def run(*arguments, cwd=None, **env):
    done = subprocess.run(
        [*RUN, *arguments], cwd=cwd, capture_output=True, text=True, check=False, env=os.environ | env
    )
    assert "Traceback" not in done.stderr
    return done


def write(folder, **files):
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


# ---------------------------------------------------------------------- targets

BUILD = "def build(): return {!r}\n"


@pytest.fixture
def project(fresh_folder):
    """Files that are no module of this process yet."""
    (fresh_folder / "alone.py").write_text(BUILD.format("alone"), encoding="utf-8")
    (fresh_folder / "json.py").write_text(BUILD.format("not the standard library's"), encoding="utf-8")
    (fresh_folder / "a: b-1.2.py").write_text(BUILD.format("odd"), encoding="utf-8")
    package = fresh_folder / "src" / "spkg" / "inner"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package.parent / "sibling.py").write_text("name = 'relative'\n", encoding="utf-8")
    (package / "net.py").write_text(
        "from ..sibling import name\n\ndef build(): return name, __name__\n", encoding="utf-8"
    )
    return fresh_folder


@pytest.mark.quick
@pytest.mark.parametrize(
    ("target", "returned"),
    [
        ("./alone.py:build", "alone"),
        ("alone.py:build", "alone"),
        ("alone:build", "alone"),
        ("{folder}/alone.py:build", "alone"),
        ("json.py:build", "not the standard library's"),
        ("./a: b-1.2.py:build", "odd"),
        ("src/spkg/inner/net.py:build", ("relative", "spkg.inner.net")),
    ],
)
def test_a_target_is_a_module_or_a_file(project, target, returned):
    assert subjects.call_target(target.format(folder=project)) == returned
    assert sys.modules["json"] is json


@pytest.mark.quick
@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("./absent.py:build", "there is no file absent.py"),
        ("./alone.py:biuld", "`./alone.py` has no `biuld`; did you mean `build`?"),
        ("./alone.py", f"'./alone.py' is not of the form {FORM}; type `shapeproof explain ./alone.py:build`"),
        ("src.spkg.inner.net", "; type `shapeproof explain src.spkg.inner.net:build`"),
        ("divides", "; it is a diagnostic: type `shapeproof rule divides`"),
        ("decoder", "; it is a model of the spec: type `shapeproof check --model decoder`"),
        ("shapeproof.toml", "; it is a spec: type `shapeproof check shapeproof.toml`"),
    ],
)
def test_what_names_no_callable_says_what_to_type(project, target, sentence):
    write(project, shapeproof_dot_toml='[models.decoder]\ntarget = "alone:build"\n')
    done = CliRunner().invoke(cli.app, ["explain", target])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.endswith(f"{sentence}\n")
    for typed in re.findall("type `shapeproof (.*)`", done.stderr):  # and that is right
        command, *arguments = shlex.split(typed)
        assert command in COMMANDS
        assert instead(arguments[-1]) or arguments[-1] in pages()


@pytest.mark.usefixtures("project")
def test_a_word_in_place_of_a_command_says_what_to_type():
    for word, hint in {
        "chekc": "did you mean `check`?",
        "divides": "it is a diagnostic: type `shapeproof rule divides`",
        "alone:build": "type `shapeproof explain alone:build`",
        "nothing": "there are init, check, lock, diff, explain, ship, verify, recheck, header, seen, zoo, schema, rule",
    }.items():
        done = CliRunner().invoke(cli.app, [word])
        assert (done.exit_code, done.stdout) == (2, "")
        assert done.stderr.endswith(f"no command is called {word!r}; {hint}\n")


# ---------------------------------------------------------------------- help and completion


@pytest.mark.quick
@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help_with_an_example_and_the_list_says_what_it_does(command):
    whole = CliRunner().invoke(cli.app, ["--help"]).stdout
    assert re.search(rf"^  {command} +\w", whole, re.MULTILINE)
    for option in ("--help", "-h"):
        done = CliRunner().invoke(cli.app, [command, option])
        assert done.exit_code == 0
        assert re.search(
            rf"Examples?:\s+shapeproof (\w+ .*\n  shapeproof )?{command}", done.stdout.replace("    ", "  ")
        )


def test_help_loads_no_command():
    program = (
        "import sys\nfrom shapeproof.ci.cli import main\nsys.argv[1:] = ['--help']\n"
        "try: main()\nexcept SystemExit: print([n for n in ('torch', 'pydantic', 'rich') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def complete(line, folder):
    """What bash is offered for a line."""
    words = line.split(" ")
    asked = {"_SHAPEPROOF_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    done = run(cwd=folder, **asked)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.thorough
def test_a_shell_completes_commands_models_and_ids(tmp_path):
    spec = "".join(f'[models."{name}"]\ntarget = "a:b"\n' for name in ("decoder", "decoder_2", "unet", "two words"))
    write(tmp_path, shapeproof_dot_toml=spec)
    assert complete("shapeproof re", tmp_path) == ["recheck"]
    assert complete("shapeproof rule d", tmp_path) == ["data-dependent", "divides"]
    assert complete("shapeproof check --model de", tmp_path) == ["decoder", "decoder_2"]
    write(tmp_path, shapeproof_dot_toml="[mod")
    assert complete("shapeproof check --model de", tmp_path) == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_shown_and_installed(shell, tmp_path):
    forced = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1", "HOME": str(tmp_path)}
    shown = run("--show-completion", shell, **forced).stdout
    assert "_SHAPEPROOF_COMPLETE=complete_" + shell in shown
    assert run("--install-completion", shell, **forced).returncode == 0
    assert any(shown.strip() in path.read_text("utf-8") for path in tmp_path.rglob("*shapeproof*") if path.is_file())


# ---------------------------------------------------------------------- what the user's code raises

DEEP = """\
import os

class Net:
    def __init__(self, depth):
        if depth == 0:
            raise OSError("no weights")
        Net(depth - 1)

def build(): return Net(8)
def once(): return Net(1)
def crash(): os.abort()
"""


def frames(text):
    return [line for line in text.splitlines() if line.startswith("  --> ")]


@pytest.mark.thorough
def test_a_build_error_shows_the_last_frames_of_the_user(tmp_path):
    write(tmp_path, nets_dot_py=DEEP)
    said = run("explain", "nets:once", cwd=tmp_path).stderr.splitlines()
    assert said == [
        "shapeproof: `nets:once` cannot be called: OSError: no weights (nets.py:6)",
        "  --> nets.py:10 in once   def once(): return Net(1)",
        "  --> nets.py:7 in __init__   Net(depth - 1)",
        '  --> nets.py:6 in __init__   raise OSError("no weights")',
    ]
    deep = run("explain", "./nets.py:build", cwd=tmp_path).stderr.splitlines()
    assert deep[1] == "  ... 5 more"
    assert len(frames("\n".join(deep))) == 5
    assert deep[-1] == said[-1]


@pytest.mark.thorough
def test_the_whole_traceback_is_the_users_own(tmp_path):
    write(tmp_path, nets_dot_py=DEEP)
    done = subprocess.run(
        [*RUN, "explain", "nets:build", "--traceback"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    sentence, title, first, *rest = done.stderr.splitlines()
    assert sentence == "shapeproof: `nets:build` cannot be called: OSError: no weights (nets.py:6)"
    assert title == "Traceback (most recent call last):"
    assert re.fullmatch(r'  File ".*/nets.py", line 9, in build', first)
    assert rest[-1] == "OSError: no weights"
    assert "  [Previous line repeated 5 more times]" in rest
    assert "shapeproof/" not in done.stderr


@pytest.mark.thorough
@pytest.mark.parametrize("whole", [False, True])
def test_a_model_without_a_verdict_shows_its_lines_in_a_check(tmp_path, whole):
    spec = '[models.build]\ntarget = "nets:build"\n[models.crash]\ntarget = "nets:crash"\n'
    write(tmp_path, nets_dot_py=DEEP, shapeproof_dot_toml=spec)
    options = ["--traceback"] if whole else []
    done = subprocess.run(
        [*RUN, "check", "--format", "json", *options], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    text = {model["name"]: model["text"] for model in json.loads(done.stdout)["models"]}
    assert text["crash"].startswith("the process ended by SIGABRT before there was a verdict\n")
    if whole:
        assert "Traceback (most recent call last):\n" in text["build"]
        assert "Fatal Python error: Aborted\n" in text["crash"]
        assert 'nets.py", line 11 in crash' in text["crash"]
    else:
        assert frames(text["build"])[-1] == '  --> nets.py:6 in __init__   raise OSError("no weights")'
        assert frames(text["crash"]) == ["  --> nets.py:11 in crash   def crash(): os.abort()"]


# ---------------------------------------------------------------------- how much is said, and how far it goes

NETS = """\
import torch

def branching(x):
    return x * 100 if x.shape[0] == 1 else x + 1

class Net(torch.nn.Module):
    def forward(self, x):
        return branching(x)

def build():
    with open("built", "a") as file:
        file.write("built ")
    return torch.nn.Flatten(0), (torch.ones(3, 4),), {}, ({0: torch.export.Dim("b", min=1, max=8)},)

def wrong(): return Net(), (torch.ones(3, 4),), {}, ({0: torch.export.Dim("b", min=1, max=8)},)
"""


def test_verbose_says_each_step_and_question_and_quiet_nothing_but_what_failed(project):
    write(project, nets_dot_py=NETS)
    quiet, verbose, both = (
        CliRunner().invoke(cli.app, ["explain", "./nets.py:wrong", *options]) for options in (["-q"], ["-v"], ["-vq"])
    )
    assert quiet.stderr == ""
    assert quiet.stdout.startswith("error[other-program]: ")
    assert quiet.stdout.splitlines()[-1] == "refuted"
    assert re.search(r"^tracing at x.shape\[0\] = \d+ \(\d+\.\d s\)$", verbose.stderr, re.MULTILINE)
    line = r" at nets.py:4   return x \* 100 if x.shape\[0\] == 1 else x \+ 1$"
    assert re.search(rf"^torch asks b == 1: False by a decision{line}", verbose.stderr, re.MULTILINE)
    assert re.search(r"^create_symbol s\d+ = b for L\['x'\].size\(\)\[0\], \d+ here$", verbose.stderr, re.MULTILINE)
    assert (both.exit_code, both.stderr) == (2, "shapeproof: expected --quiet or --verbose, got both\n")


@pytest.mark.thorough
def test_exitfirst_stops_at_the_first_that_does_not_pass(tmp_path):
    spec = "".join(f'[models.{name}]\ntarget = "absent:{name}"\n' for name in ("one", "two", "three"))
    write(tmp_path, shapeproof_dot_toml=spec)
    done = run("check", "-x", "--jobs", "1", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout.splitlines()[-1] == "0 passed, 1 failed, 2 not run to the end"
    assert [line.split()[:3] for line in done.stdout.splitlines()[-3:-1]] == [
        ["two", "not", "run"],
        ["three", "not", "run"],
    ]


@pytest.mark.thorough
def test_the_hooks_prove_each_model_once(tmp_path):
    """What the first hook has proved of a change is what the second compares with the lock."""
    spec, built = '[models.net]\ntarget = "nets:build"\n', tmp_path.with_name("built")
    nets = NETS.replace('"built"', repr(str(built)))  # a model that writes beside its spec is checked each time
    write(tmp_path, nets_dot_py=nets, shapeproof_dot_toml=spec)
    assert run("lock", cwd=tmp_path).returncode == 0
    write(tmp_path, nets_dot_py=nets + "# changed\n")
    built.unlink()
    for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")):
        program, *arguments = [*shlex.split(hook["entry"]), *hook["args"]]
        assert program == "shapeproof"
        assert run(*arguments, cwd=tmp_path).returncode == 0
    assert built.read_text("utf-8") == "built "


# ---------------------------------------------------------------------- an interrupt

WAITS = """
import os, signal
def waits():
    with open("fifo", "w") as hold:
        hold.write("started")
        hold.flush()
        signal.pause()
"""


@pytest.mark.slow  # on a busy machine what a model has read is now and then in doubt, and it is checked again
def test_an_interrupt_tells_what_was_done_and_keeps_it(tmp_path):
    write(tmp_path, nets_dot_py=NETS + WAITS)
    spec = '[models.net]\ntarget = "nets:build"\n[models.open]\ntarget = "nets:waits"\n[models.last]\ntarget = "a:b"\n'
    write(tmp_path, shapeproof_dot_toml=spec)
    os.mkfifo(tmp_path / "fifo")
    command = [*RUN, "check", "--jobs", "1", "--format", "json"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        with (tmp_path / "fifo").open("rb") as held:
            assert held.read(7) == b"started"
            process.send_signal(signal.SIGINT)
            assert held.read() == b""  # returns when nobody is left who holds it
        shown, said = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in said
    assert said.endswith("shapeproof: interrupted: 1 of 3 models were checked, not open, last\n")
    assert [(model["name"], model["verdict"], model["skipped"]) for model in json.loads(shown)["models"]] == [
        ("net", "proved", False),
        ("open", None, True),
        ("last", None, True),
    ]
    done = run("check", "--cached", "--model", "net", "--format", "json", cwd=tmp_path)
    assert json.loads(done.stdout)["models"][0]["unchanged"]


@pytest.mark.thorough
def test_an_interrupted_explain_says_what_it_was_doing(tmp_path):
    write(tmp_path, nets_dot_py=WAITS)
    os.mkfifo(tmp_path / "fifo")
    with subprocess.Popen(
        [*RUN, "explain", "nets:waits"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        with (tmp_path / "fifo").open("rb") as held:
            assert held.read(7) == b"started"
            process.send_signal(signal.SIGINT)
        shown, said = process.communicate()
    assert (process.returncode, shown) == (130, "")
    assert said.splitlines()[-1] == "shapeproof: interrupted while loading nets:waits"
    assert "Traceback" not in said


def test_a_second_interrupt_does_not_stop_the_winding_down(tmp_path):
    """What winds down is stood for by a program that waits after the first one."""
    program = (
        "import signal, sys\nfrom shapeproof.ci import cli\ncli._take_one_interrupt()\n"
        "try: signal.raise_signal(signal.SIGINT)\nexcept KeyboardInterrupt: print('first')\n"
        "signal.raise_signal(signal.SIGINT); print('second', flush=True)\n"
        "signal.raise_signal(signal.SIGINT); print('third')"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "first\nsecond\n", "")


# ---------------------------------------------------------------------- what a model does to this process

RUDE = """\
import sys
import torch

class Odd(BaseException): pass

class Net(torch.nn.Module):
    def forward(self, x):
        print("of the model")
        return x + 1

def closes():
    sys.stdout.close()
    sys.stderr.close()
    return prints()
def prints(): return Net(), (torch.ones(3, 4),), {}, None
def odd(): raise Odd("neither an error nor an exit")
def mute():
    class Mute(Exception):
        def __str__(self): raise ValueError
    raise Mute
"""


def test_what_a_model_prints_closes_or_raises_is_no_verdict(project):
    write(project, rude_dot_py=RUDE)
    explained = {
        name: CliRunner().invoke(cli.app, ["explain", f"./rude.py:{name}"])
        for name in ("closes", "prints", "odd", "mute")
    }
    for name in ("closes", "prints"):
        assert explained[name].exit_code == 0, explained[name].stderr
        assert explained[name].stdout.startswith("proved")
    assert "of the model" in explained["prints"].stderr
    for name, said in {"odd": "Odd: neither an error nor an exit", "mute": "Mute"}.items():
        assert (explained[name].exit_code, explained[name].stdout) == (2, "")
        assert f"`./rude.py:{name}` cannot be called: {said} (rude.py:" in explained[name].stderr


@pytest.mark.thorough
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_a_standard_stream_that_is_closed_is_none_of_the_verdict(tmp_path, closed):
    write(tmp_path, shapeproof_dot_toml='[models.net]\ntarget = "absent:net"\n')
    command = f"{shlex.join([*RUN, 'check'])} {closed}"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)  # noqa: S607
    assert done.returncode == 2
    assert "Traceback" not in done.stdout + done.stderr
    if closed in {"2>&-", "<&-"}:
        assert "`absent` cannot be imported" in done.stdout
