"""The command line `shapeproof`: lists the commands, each of which has a file of its own in commands/.

Exit status of every command that gives a verdict: 0 proved, 1 refuted or vacuous, 3 undecided; 2 where there is none,
because the call cannot be meant, a model cannot be traced, or this program is at fault. What was found goes to stdout
as it is, everything else to stderr. Nothing is decided here, and torch is loaded only to check something.
"""

from __future__ import annotations

import io
import sys
import traceback
from typing import Annotated

import typer

import shapeproof
from shapeproof.ci.commands.check import check
from shapeproof.ci.commands.diff import diff
from shapeproof.ci.commands.explain import explain
from shapeproof.ci.commands.lock import lock
from shapeproof.ci.commands.recheck import recheck
from shapeproof.ci.commands.rule import rule
from shapeproof.ci.commands.seen import seen
from shapeproof.ci.terminal import NO_VERDICT

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None, no_args_is_help=True)


def main() -> None:
    """Run the command line; a character that the output cannot show is escaped."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        app(prog_name="shapeproof")
    except Exception:  # noqa: BLE001 - Python's own exit status, 1, would pass for a verdict
        traceback.print_exc()
        sys.exit(NO_VERDICT)


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - the signature of a callback
    if wanted:
        typer.echo(f"shapeproof {shapeproof.__version__}")
        raise typer.Exit


_Version = Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")]


@app.callback()
def shapeproof_command(*, _version: _Version = False) -> None:
    """Verified torch.export: is a model right at every declared size?"""


for command in (check, lock, diff, explain, recheck, rule, seen):
    app.command()(command)
