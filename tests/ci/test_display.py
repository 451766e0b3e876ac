"""What `shapeproof check` shows while it works: on a terminal, and where there is none."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys

import pytest

from shapeproof.ci.running import display
from shapeproof.ci.running.display import PATIENCE, Display, Verbosity

PROGRAM = """
from shapeproof.ci.cli import main
from shapeproof.ci.running import display

display.PATIENCE = 3600  # no line about a step, however slow the machine is
main()
"""
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture
def folder(tmp_path):
    """Two models that have no verdict, one with a name that could be markup."""
    spec = '[models.one]\ntarget = "nets:absent"\n[models."[red]two[/red]"]\ntarget = "nets:absent"\n'
    (tmp_path / "nets.py").write_text("", encoding="utf-8")
    (tmp_path / "shapeproof.toml").write_text(spec, encoding="utf-8")
    return tmp_path


@pytest.mark.thorough
def test_without_a_terminal_a_line_for_each_model(folder):
    run = [sys.executable, "-c", PROGRAM, "check"]
    done = subprocess.run(run, cwd=folder, capture_output=True, text=True, check=False)
    lines = sorted(re.sub(r"\d+\.\d", "0.0", line) for line in done.stderr.splitlines())
    assert lines == ["[red]two[/red]: no verdict (0.0 s)", "one: no verdict (0.0 s)"]


def lines(capsys):
    return re.sub(r"\d+\.\d", "0.0", capsys.readouterr().err).splitlines()


def test_without_a_terminal_there_is_a_line_when_a_quarter_more_time_has_passed(capsys, monkeypatch):
    """An hour gets some forty lines, whatever is told and however often it is looked at."""
    monkeypatch.setattr(display, "_TICK", 1000)
    with Display() as shown:
        shown.tell("net", "tracing at b = [red]1")
        begin = shown._begin
        shown.beat(begin + PATIENCE / 2)
        assert lines(capsys) == []
        shown.beat(begin + 2 * PATIENCE)
        shown.beat(begin + 2 * PATIENCE)
        assert lines(capsys) == ["net: tracing at b = [red]1 (0.0 s)"]
        for second in range(3600):
            shown.tell("net", f"tracing at b = {second}")
            shown.beat(begin + second)
        assert 20 < len(lines(capsys)) < 45
        shown.done("net", "net: proved (1.0 s)")
        shown.beat(begin + 9999)
        assert lines(capsys) == ["net: proved (0.0 s)"]


@pytest.mark.quick
@pytest.mark.parametrize("verbosity", Verbosity)
def test_quiet_is_silent_and_verbose_has_a_line_for_each_step(capsys, verbosity):
    with Display(verbosity) as shown:
        shown.tell("net", "loading")
        shown.tell("net", "tracing")
        shown.done("net", "net: proved (1.0 s)")
    steps = ["net: loading (0.0 s)", "net: tracing (0.0 s)"] if verbosity is Verbosity.VERBOSE else []
    verdict = [] if verbosity is Verbosity.QUIET else ["net: proved (0.0 s)"]
    assert lines(capsys) == [*steps, *verdict]


SHOWN = """
from shapeproof.ci.running.display import PATIENCE, Display

with Display() as shown:
    shown.tell("one", "loading")
    shown.beat(shown._begin + PATIENCE)
    shown.done("one", "one: no verdict (0.0 s)")
    shown.done("[red]two[/red]", "[red]two[/red]: no verdict (0.0 s)")
"""


def test_on_a_terminal_what_is_live_goes_and_what_is_done_stays():
    master, slave = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "80"}
    run = [sys.executable, "-c", SHOWN]
    with subprocess.Popen(run, stdout=subprocess.DEVNULL, stderr=slave, env=environment) as process:
        os.close(slave)
        written = b""
        while chunk := read(master):
            written += chunk
    os.close(master)
    assert process.returncode == 0
    shown = written.decode()
    assert "one: no verdict" in CONTROL.sub("", shown)
    assert "[red]two[/red]: no verdict" in CONTROL.sub("", shown)
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")  # the cursor is back


def read(terminal):
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other end is closed
        return b""
