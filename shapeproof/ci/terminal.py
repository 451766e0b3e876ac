"""What the commands write to the terminal: a report on stdout, remarks and refusals on stderr; and the exit status."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import NoReturn, TextIO

import typer
from rich.console import Console
from rich.text import Text

from shapeproof.ci.plain import no_command, plain
from shapeproof.export.report.render import WIDTH

EXIT_STATUS = {"proved": 0, "agrees": 0, "refuted": 1, "vacuous": 1, "undecided": 3}
NO_VERDICT = 2
INTERRUPTED = 130

_COLOURS = {
    r"(?m)^(error(?=\[)|(refuted|vacuous)(?=:|$))": "bold red",
    r"(?m)^(warning(?=\[)|undecided(?=:|$))": "bold yellow",
    r"(?m)^(note|help)(?=:|\[)": "bold cyan",
    r"(?m)^proved(?=:|$)": "bold green",
}


def show(text: str, *, commands: bool = False) -> None:
    """The text on stdout, so that it does nothing there; GitHub's runner finds commands only where they are meant.

    If nobody reads it to its end, the verdict stands; if it cannot be written, there is none.
    """
    text = plain(text) if commands or os.environ.get("GITHUB_ACTIONS") != "true" else no_command(plain(text))
    console = Console()
    if console.is_terminal:
        console.print(_coloured(text), soft_wrap=True)
        return
    try:
        _write(text, sys.stdout)
    except OSError as error:
        fail(f"what was found cannot be written: {error.strerror}")


def say(text: str) -> None:
    """A remark on stderr. If nobody reads it, the verdict stands."""
    with contextlib.suppress(OSError, ValueError):  # ValueError: it is closed
        _write(no_command(plain(text)), sys.stderr)


def width() -> int:
    """How wide a report may be: as it is saved, or less on a terminal that is not that wide."""
    console = Console()
    return min(WIDTH, console.width) if console.is_terminal else WIDTH


def _write(text: str, stream: TextIO) -> None:
    try:
        typer.echo(text, file=stream)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())  # for what Python writes when it ends
        if not isinstance(error, BrokenPipeError):
            raise


def fail(sentence: str) -> NoReturn:
    """One sentence on stderr, and the exit status of a call that has no verdict."""
    say(f"shapeproof: {sentence}")
    raise typer.Exit(NO_VERDICT)


def _coloured(report: str) -> Text:
    """The text with its severity words in colour. Square brackets in it are text, not markup."""
    text = Text(report)
    for pattern, style in _COLOURS.items():
        text.highlight_regex(pattern, style)
    return text
