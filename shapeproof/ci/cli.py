"""The command line `shapeproof`: lists the commands. Each command has its own file in commands/.

Exit status of every command that gives a verdict: 0 proved, 1 refuted or vacuous, 3 undecided; 2 without a verdict (an
invalid call, a model that cannot be traced, or a fault of this program); 130 after an interrupt. Reports go to stdout,
everything else to stderr. A command is imported when it is called, and torch only when a model is checked, so that
`--help` and shell completion answer at once.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import io
import itertools
import os
import signal
import sys
import traceback
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

import shapeproof
from shapeproof.constraints.errors import UsageError, nearest

NO_VERDICT, INTERRUPTED = 2, 130

_COMMANDS = {
    "init": "Write the spec of a model, from an example.",
    "check": "Check all models of a spec, each in a process of its own.",
    "lock": "Check all models, and write what each accepts to shapeproof.lock.",
    "diff": "Fail where a model accepts less than shapeproof.lock says.",
    "explain": "Check one model, and print its report.",
    "ship": "Write a model as a file for a consumer, once the file has done what eager does.",
    "verify": "Run such a file beside the model, or by its contract alone.",
    "recheck": "Prove a certificate again with Z3, and with cvc5 where it is installed.",
    "header": "Write a C++ header that checks a contract.",
    "seen": "Merge profiles of what a model was given, and print them or a spec.",
    "zoo": "Print the spec of a public architecture, to start from.",
    "schema": "Print the JSON Schema of a spec.",
    "rule": "Print what a diagnostic means, and what to do.",
}
"""Each command with its line in the help."""
_EXAMPLES = """\b
Examples:
  shapeproof explain ./model.py:build   one model, from a function that returns it
  shapeproof check                      all models of shapeproof.toml
  shapeproof rule divides               what error[divides] means"""


class _Commands(TyperGroup):
    """A command group that lists its commands by name and imports only the one that is called."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - typer's signature
        """Return the names of the commands."""
        return list(_COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | None:  # noqa: ARG002 - typer's signature
        """Import and return the command of that name, if there is one."""
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"shapeproof.ci.commands.{cmd_name}")
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        alone.command(cmd_name, epilog=module.EXAMPLES)(getattr(module, cmd_name))
        command: Any = typer.main.get_command(alone)
        return command  # type: ignore[no-any-return]

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - typer's signature
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command named by the first argument; fail with a suggestion if there is no such command."""
        if args[0] not in _COMMANDS and not ctx.resilient_parsing:
            from shapeproof.ci.commands.explain import instead

            hint = instead(args[0]) or nearest(args[0], _COMMANDS)
            ctx.fail(f"no command is called {args[0]!r}{hint}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; an invalid request is refused with a sentence and the status of a call without a verdict."""
        try:
            return super().invoke(ctx)
        except UsageError as error:
            from shapeproof.ci.terminal import fail

            fail(str(error))


app = typer.Typer(cls=_Commands, pretty_exceptions_enable=False, rich_markup_mode=None, no_args_is_help=True)


def main() -> None:
    """Run the command line; escape characters that the output encoding cannot show."""
    _fill_standard_streams()
    _take_one_interrupt()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    with contextlib.suppress(AttributeError, OSError, RuntimeError, ValueError):  # stderr is closed or is no file
        faulthandler.enable(all_threads=False)
    try:
        app(prog_name="shapeproof")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except SystemExit:
        raise
    except OSError as error:  # raised by the help, for example; commands word their own errors
        typer.echo(f"shapeproof: {error.strerror or error}", err=True)
        sys.exit(NO_VERDICT)
    except BaseException:  # noqa: BLE001 - Python's own exit status, 1, would pass for a verdict
        traceback.print_exc()
        typer.echo("shapeproof: this is a fault of shapeproof, not of the model: there is no verdict", err=True)
        sys.exit(NO_VERDICT)


def _fill_standard_streams() -> None:
    """Open `os.devnull` for each standard stream that the shell has closed, as with `2>&-`.

    Otherwise one of our pipes would get its number, and printed text would go into that pipe.
    """
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
            if getattr(sys, name) is None:
                setattr(sys, name, os.fdopen(opened, "r" if descriptor == 0 else "w", encoding="utf-8"))


def _take_one_interrupt() -> None:
    """Let the first Ctrl-C interrupt, ignore the second during the clean-up, and let the third end the process."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return  # SIGINT is ignored, as in the background of a shell
    times = itertools.count()

    def interrupt(*_: object) -> None:
        if next(times) == 0:
            raise KeyboardInterrupt
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    with contextlib.suppress(ValueError):  # ValueError: not the main thread
        signal.signal(signal.SIGINT, interrupt)


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - the signature of a callback
    if wanted:
        typer.echo(f"shapeproof {shapeproof.__version__}")
        raise typer.Exit


_Version = Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")]


@app.callback(context_settings={"help_option_names": ["-h", "--help"]}, epilog=_EXAMPLES)
def shapeproof_command(*, _version: _Version = False) -> None:
    """Verified torch.export: is a model right at every declared size?"""
