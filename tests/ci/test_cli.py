"""The command line: what goes to stdout, what to stderr, and with which exit status.

Within this process where that is enough; in a process of its own where a pipe, a terminal or the import path matters.
"""

from __future__ import annotations

import importlib.metadata
import os
import pty
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

import shapeproof
from shapeproof.ci import cli
from shapeproof.ci.process import subjects
from shapeproof.ci.running import display
from shapeproof.ci.specs.spec import parse_spec
from shapeproof.ci.specs.spec_errors import FORM
from shapeproof.constraints.records.diagnostics import Diagnostic
from shapeproof.export import load_report, verify
from shapeproof.export.report.colours import coloured
from shapeproof.export.report.render import pointers
from shapeproof.export.report.report import Report

SUBJECT = """
import sys
import torch
from torch.export import Dim

class Plain(torch.nn.Module):
    def forward(self, x):
        return x + 1

class Branching(torch.nn.Module):
    def forward(self, x):
        return x * 100 if x.shape[0] == 1 else x + 1

class Failing(torch.nn.Module):
    def forward(self, x):
        return x @ torch.ones(7, 7)

def of(model, *constraints):
    declared = {"x": {0: Dim("b", min=1, max=8)}}
    return model, (torch.ones(3, 4),), {}, declared, *([constraints] if constraints else [])

def proved(): return of(Plain())
def refuted(): return of(Branching())
def vacuous(): return of(Plain(), "b > 9")
def failing(): return of(Failing())
def misnamed(): return of(Plain(), "batch < 3")
def inputs(): return Plain(), [torch.ones(3, 4)], {}, None
def needs_one(x): return of(Plain())
def three(): return of(Plain())[:3]
def nothing(): return None
def raises(): raise OSError("no weights\\nat all")
def leaves(): sys.exit(0)
def interrupted(): raise KeyboardInterrupt
class Box:
    build = staticmethod(proved)
"""

RUN = [sys.executable, "-c", "from shapeproof.ci.cli import main; main()"]


@pytest.fixture(autouse=True)
def folder(fresh_folder):
    """A working directory with `subject.py` in it, which no other test has imported."""
    (fresh_folder / "subject.py").write_text(SUBJECT, encoding="utf-8")
    return fresh_folder


@pytest.fixture(autouse=True)
def no_line_about_a_step(monkeypatch):
    """However slow the machine is, stderr has no progress."""
    monkeypatch.setattr(display, "PATIENCE", 3600)


def explain(*arguments):
    return CliRunner().invoke(cli.app, ["explain", *map(str, arguments)])


def run(*arguments, **streams):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams
    return subprocess.run([*RUN, *arguments], text=True, check=False, **pipes)


def answer(monkeypatch, report):
    """Have the checker return this report."""
    monkeypatch.setattr(verify, "verified", lambda *_, **__: report)


# ---------------------------------------------------------------------- verdicts


@pytest.mark.quick
@pytest.mark.parametrize(("status", "code"), [("proved", 0), ("refuted", 1), ("vacuous", 1), ("undecided", 3)])
def test_the_exit_status_is_the_verdict(monkeypatch, status, code):
    answer(monkeypatch, Report(status))
    done = explain("subject:proved")
    assert (done.exit_code, done.stdout) == (code, f"{status}\n")


@pytest.mark.thorough
@pytest.mark.parametrize("status", ["proved", "refuted", "vacuous"])
def test_the_report_goes_to_stdout_as_it_is(status):
    done = explain(f"subject:{status}")
    report = reported(f"subject:{status}")
    assert report.status == status
    assert done.stdout == f"{report}{pointers(report.diagnostics)}\n"


def reported(target):
    """What the checker says, without the command line."""
    return subjects.check_subject(subjects.load_subject(target), lambda _: None)


def test_the_callable_may_be_an_attribute_of_an_attribute():
    assert explain("subject:Box.build").exit_code == 0


def test_the_version():
    done = CliRunner().invoke(cli.app, ["--version"])
    assert (done.exit_code, done.stdout) == (0, f"shapeproof {shapeproof.__version__}\n")


ERRORS = Path(__file__).parents[2] / "docs" / "errors"


def test_the_page_of_a_diagnostic_is_printed():
    done = CliRunner().invoke(cli.app, ["rule", "divides"])
    assert done.exit_code == 0
    assert done.stdout == (ERRORS / "divides.md").read_text(encoding="utf-8").rstrip() + "\n"
    listed = CliRunner().invoke(cli.app, ["rule"]).stdout.splitlines()
    assert [line.split()[0] for line in listed] == sorted(page.stem for page in ERRORS.glob("[a-z]*.md"))


def test_a_diagnostic_that_is_not_there_is_a_wrong_call():
    done = CliRunner().invoke(cli.app, ["rule", "divide"])
    assert done.exit_code == 2
    assert done.stderr == "shapeproof: no diagnostic is called 'divide'; did you mean `divides`?\n"


def test_the_spec_of_an_architecture_is_printed_and_is_a_spec():
    done = CliRunner().invoke(cli.app, ["zoo", "bert"])
    assert done.exit_code == 0
    spec = parse_spec(tomllib.loads(done.stdout))
    assert spec.dims["length"].max == 512
    assert spec.models["bert"].inputs["input_ids"].dims == ["batch", "length"]
    listed = CliRunner().invoke(cli.app, ["zoo"]).stdout.split()
    assert listed == sorted(listed)
    assert "bert" in listed


def test_an_architecture_that_is_not_there_is_a_wrong_call():
    done = CliRunner().invoke(cli.app, ["zoo", "bret"])
    assert done.exit_code == 2
    assert done.stderr == "shapeproof: no architecture of the zoo is called 'bret'; did you mean `bert`?\n"


def test_the_package_is_the_command():
    done = subprocess.run([sys.executable, "-m", "shapeproof", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"shapeproof {shapeproof.__version__}\n"


@pytest.mark.parametrize("module", ["cli", "commands.check"])
def test_no_command_loads_torch_before_its_models(module):
    program = f"import sys, shapeproof.ci.{module}; print([n for n in ('torch', 'z3', 'sympy') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# ---------------------------------------------------------------------- no verdict

NO_VERDICT = {
    "subject": f"'subject' is not of the form {FORM}; type `shapeproof explain subject:proved`",
    "subject:": f"'subject:' is not of the form {FORM}",
    ":build": f"':build' is not of the form {FORM}",
    "absent:build": "`absent` cannot be imported: ModuleNotFoundError: No module named 'absent'",
    "subject:absent": "`subject` has no `absent`; there are Plain, Branching, Failing, of, proved, refuted, vacuous, "
    "failing, misnamed, inputs, needs_one, three, nothing, raises, leaves, interrupted, Box",
    "subject:prooved": "`subject` has no `prooved`; did you mean `proved`?",
    "subject:Plain": f"`subject:Plain` must return {subjects.RETURNS}, but it returned a Plain; "
    "of a model alone `shapeproof init TARGET EXAMPLE` writes a spec",
    "subject:SUBJECT.absent": "`subject` has no `SUBJECT.absent`; there are Plain, Branching, Failing, of, proved, "
    "refuted, vacuous, failing, misnamed, inputs, needs_one, three, nothing, raises, leaves, interrupted, Box",
    "subject:needs_one": "`subject:needs_one` cannot be called: TypeError: "
    "needs_one() missing 1 required positional argument: 'x'",
    "subject:raises": "`subject:raises` cannot be called: OSError: no weights (subject.py:31)\n"
    '  --> subject.py:31 in raises   def raises(): raise OSError("no weights\\nat all")',
    "subject:leaves": "`subject:leaves` cannot be called: SystemExit: 0 (subject.py:32)\n"
    "  --> subject.py:32 in leaves   def leaves(): sys.exit(0)",
    "subject:three": f"`subject:three` must return {subjects.RETURNS}, but it returned a tuple of 3",
    "subject:nothing": f"`subject:nothing` must return {subjects.RETURNS}, but it returned a NoneType",
    "subject:misnamed": "constraint 'batch < 3' names `batch`, but no dim has that name; there are b",
    "subject:inputs": "args must be a tuple of example inputs, not list",
}


@pytest.mark.quick
@pytest.mark.parametrize("target", NO_VERDICT)
def test_a_wrong_call_gets_one_sentence(target):
    done = explain(target)
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", f"shapeproof: {NO_VERDICT[target]}\n")


def test_an_import_that_fails_names_the_line(folder):
    (folder / "broken.py").write_text("import math\nmath.sqrt(-1)\n", encoding="utf-8")
    done = explain("broken:build")
    assert done.exit_code == 2
    assert re.fullmatch(
        r"shapeproof: `broken` cannot be imported: ValueError: [^\n]+ \(broken.py:2\)\n  --> broken.py:2 in [^\n]*\n",
        done.stderr,
    )


def test_a_model_that_raises_at_its_own_example_is_refuted():
    done = explain("subject:failing")
    assert done.exit_code == 1
    first, place, *_, verdict, page = done.stdout.splitlines()
    assert first == "error[example]: the model raises for the example"
    assert place == "  --> subject.py:16   return x @ torch.ones(7, 7)"
    assert (verdict, page) == ("refuted", pointers([Diagnostic("example", "")]).strip())
    assert "Traceback" not in done.stderr


def test_another_torch_is_a_wrong_call(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "2.12.0")
    done = explain("subject:proved")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == "shapeproof: torch 2.12.0 is not supported; supported: 2.13.x, 2.14.x, 2.15.x\n"


def test_a_missing_argument_is_a_wrong_call():
    done = CliRunner().invoke(cli.app, ["explain"])
    assert done.exit_code == 2
    assert "TARGET" in done.stderr


def test_an_interrupt_is_no_verdict():
    assert explain("subject:interrupted").exit_code == 130


# ---------------------------------------------------------------------- --save


def test_save_writes_the_report(folder):
    done = explain("subject:refuted", "--save", "report.json")
    assert done.exit_code == 1
    assert done.stdout.startswith(f"{load_report(folder / 'report.json')}\n")


def test_a_path_that_cannot_be_written_is_named_and_the_report_is_printed(monkeypatch):
    answer(monkeypatch, Report("proved"))
    done = explain("subject:proved", "--save", "absent/report.json")
    assert (done.exit_code, done.stdout) == (2, "proved\n")
    assert done.stderr == "shapeproof: absent/report.json cannot be written: No such file or directory\n"


def test_save_writes_through_links_to_devices_and_to_any_path(folder, monkeypatch):
    answer(monkeypatch, Report("proved"))
    (folder / "link").symlink_to("real.json")
    for path in ("/dev/null", "link", os.fsdecode(b"caf\xe9.json")):
        assert explain("subject:proved", "--save", path).exit_code == 0
    assert Path("/dev/null").is_char_device()
    assert (folder / "link").is_symlink()
    assert load_report(folder / "real.json") == load_report(folder / os.fsdecode(b"caf\xe9.json"))
    done = explain("subject:proved", "--save", "/dev/full")
    assert (done.exit_code, done.stderr) == (2, "shapeproof: /dev/full cannot be written: No space left on device\n")


# ---------------------------------------------------------------------- pipes and terminals


def test_a_reader_that_stops_early_does_not_change_the_verdict():
    reading, writing = os.pipe()
    os.close(reading)
    program = PROGRAM.format(text="'refuted' * 100_000")
    alone = shown(program, stdout=writing)
    both = shown("from shapeproof.ci.terminal import say; say('checking'); " + program, stdout=writing, stderr=writing)
    os.close(writing)
    assert (alone.returncode, alone.stderr, both.returncode) == (3, "", 3)


@pytest.mark.thorough
def test_a_process_finds_the_module_here_and_escapes_what_the_output_cannot_show(folder):
    """What is shown quotes the user's source, which may hold any character."""
    (folder / "greek.py").write_text("def build(): raise OSError('β')", encoding="utf-8")
    done = run("explain", "greek:build", env=os.environ | {"PYTHONIOENCODING": "latin-1"})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "shapeproof: `greek:build` cannot be called: OSError: \\u03b2 (greek.py:1)",
        "  --> greek.py:1 in build   def build(): raise OSError('\\u03b2')",
    ]


def test_what_cannot_be_written_is_no_verdict():
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = shown(PROGRAM.format(text="'refuted'"), stdout=full)
        beside = shown("from shapeproof.ci.terminal import say; say('checking'); raise SystemExit(3)", stderr=full)
    assert (done.returncode, done.stderr) == (
        2,
        "shapeproof: what was found cannot be written: No space left on device\n",
    )
    assert beside.returncode == 3


def test_a_fault_of_this_program_does_not_pass_for_a_verdict(monkeypatch, capsys):
    """An exception that nobody catches ends a Python process with 1, which is the status of `refuted`."""
    monkeypatch.setattr(verify, "verified", lambda *_, **__: None)
    monkeypatch.setattr(sys, "argv", ["shapeproof", "explain", "subject:proved"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert "AttributeError: 'NoneType' object" in capsys.readouterr().err


PROGRAM = """
from shapeproof.ci.terminal import show
import typer
try:
    show({text})
except typer.Exit as left:
    raise SystemExit(left.exit_code)
raise SystemExit(3)
"""


def shown(program, **streams):
    """A process that shows a text."""
    return subprocess.run(
        [sys.executable, "-c", program], text=True, check=False, **({"stderr": subprocess.PIPE} | streams)
    )


def on_terminal(text, **environment):
    """What is written to a terminal where the text is shown."""
    return written_by(PROGRAM.format(text=repr(text)), **environment)


def written_by(program, **environment):
    """What a program writes to a terminal."""
    master, slave = pty.openpty()
    kept = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "COLUMNS"}}
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=slave,
        env=kept | {"TERM": "xterm"} | environment,
    ):
        os.close(slave)
        written = b""
        while chunk := _read(master):
            written += chunk
    os.close(master)
    return written.decode().replace("\r\n", "\n")


def _read(terminal):
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other end is closed
        return b""


STYLE = re.compile(r"\x1b\[[0-9;]*m")


REPORT = """\
error[divides]: `x[0].shape[0]` must be a multiple of 4
help: n = 4*_n   (proved: settles this, in a line that is longer than the terminal is wide)
refuted: 3 questions about sizes
"""


def test_a_terminal_gets_the_same_text_with_severity_words_in_colour():
    written = on_terminal(REPORT, COLUMNS="40")
    assert STYLE.sub("", written) == f"{REPORT}\n"
    assert re.findall(r"\x1b\[[0-9;]*m([^\x1b]*)\x1b\[0m", written) == ["error", "help", "refuted"]


def test_a_report_is_as_wide_as_the_terminal():
    program = "from shapeproof.ci import terminal; print(terminal.width())"
    assert shown(program, stdout=subprocess.PIPE).stdout == "100\n"
    assert [written_by(program, COLUMNS=columns) for columns in ("60", "200")] == ["60\n", "100\n"]


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_a_terminal_that_wants_no_colour_gets_none(environment):
    assert re.findall(r"\x1b\[[0-9;]*3\dm", on_terminal(REPORT, **environment)) == []


def test_square_brackets_are_text_and_only_severity_words_are_styled():
    message = "`x[0][bold].shape[1]` is [red]not[/red] an error[id]: refuted: note: [/]"
    report = str(
        Report(
            "undecided",
            (Diagnostic("id", message), Diagnostic("id", "more", "warning")),
            notes=("error[x]: proved",),
        )
    )
    text = coloured(report)
    assert text.plain == report
    assert [text.plain[span.start : span.end] for span in sorted(text.spans)] == [
        "error",
        "warning",
        "note",
        "undecided",
    ]


def test_progress_is_silent_while_it_is_quick(monkeypatch):
    answer(monkeypatch, Report("proved"))
    done = explain("subject:proved")
    assert (done.exit_code, done.stderr) == (0, "")


def test_progress_on_a_terminal_is_a_spinner_that_leaves_nothing_behind():
    """Nothing but the spinner is written, brackets as they are; it is cleared at the end."""
    program = (
        "from shapeproof.ci.running.display import Display\n"
        "with Display() as display:\n"
        "    display.tell('', 'tracing at x[0] = [red]1')\n"
        "    display.beat(float('inf'))\n"
    )
    master, slave = pty.openpty()
    subprocess.run([sys.executable, "-c", program], stderr=slave, check=True, env=os.environ | {"TERM": "xterm"})
    os.close(slave)
    written = _read(master).decode()
    os.close(master)
    assert "tracing at x[0] = [red]1" in written
    assert written.endswith("\x1b[2K")  # erase the line
