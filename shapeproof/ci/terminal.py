"""Terminal output of the commands: reports on stdout, remarks and refusals on stderr, and the exit status."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import NoReturn, TextIO

import typer
from rich.console import Console

from shapeproof.ci.plain import no_command, plain
from shapeproof.export.report.colours import coloured
from shapeproof.export.report.render import WIDTH
from shapeproof.files import write_whole, writing

EXIT_STATUS = {
    **dict.fromkeys(("proved", "agrees", "same"), 0),
    **dict.fromkeys(("refuted", "vacuous", "differs", "refuses"), 1),
    "undecided": 3,
}
NO_VERDICT = 2
INTERRUPTED = 130


def show(text: str, *, commands: bool = False, output: Path | None = None) -> None:
    """Write the text to stdout, or to the file `output`, with its control characters escaped.

    On GitHub Actions, workflow commands in the text are escaped too, unless `commands` is true. If the reader closes
    the pipe early, the verdict stands; if the text cannot be written, there is no verdict.
    """
    if output is not None:
        with writing(output):
            write_whole(output, f"{plain(text)}\n")
        return
    text = plain(text) if commands or os.environ.get("GITHUB_ACTIONS") != "true" else no_command(plain(text))
    console = Console()
    if console.is_terminal:
        console.print(coloured(text), soft_wrap=True)
        return
    try:
        _write(text, sys.stdout)
    except OSError as error:
        fail(f"what was found cannot be written: {error.strerror}")


def say(text: str) -> None:
    """Write a remark to stderr. The verdict stands if stderr cannot be written."""
    with contextlib.suppress(OSError, ValueError):  # ValueError: stderr is closed
        _write(no_command(plain(text)), sys.stderr)


def width() -> int:
    """Return the width of a report: `WIDTH`, or the width of the terminal if that is smaller."""
    console = Console()
    return min(WIDTH, console.width) if console.is_terminal else WIDTH


def _write(text: str, stream: TextIO) -> None:
    try:
        typer.echo(text, file=stream)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())  # for the flush at the exit of Python
        if not isinstance(error, BrokenPipeError):
            raise


def fail(sentence: str) -> NoReturn:
    """Write one sentence to stderr and exit with the status of a call without a verdict."""
    say(f"shapeproof: {sentence}")
    raise typer.Exit(NO_VERDICT)
