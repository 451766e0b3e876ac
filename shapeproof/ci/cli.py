"""The command line: `shapeproof explain module.path:callable` prints the report of a model and exits with its verdict.

Exit status: 0 proved, 1 refuted or vacuous, 3 undecided; 2 where there is no verdict, because the call cannot be meant
or the model cannot be traced at its own example. The report goes to stdout as it is, everything else to stderr. Nothing
is decided here, and torch is loaded only to check something.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import operator
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, Self

import typer
from rich.console import Console
from rich.text import Text

import shapeproof
from shapeproof.constraints.errors import UsageError

if TYPE_CHECKING:
    from shapeproof.export import Report

EXIT_STATUS = {"proved": 0, "refuted": 1, "vacuous": 1, "undecided": 3}
NO_VERDICT = 2

PATIENCE = 1.0
"""Seconds before progress is shown."""

_RETURNS = "(model, args, kwargs, dynamic_shapes) or (model, args, kwargs, dynamic_shapes, constraints)"
_COLOURS = {
    r"(?m)^(error(?=\[)|(refuted|vacuous)(?=:|$))": "bold red",
    r"(?m)^(warning(?=\[)|undecided(?=:|$))": "bold yellow",
    r"(?m)^(note|help)(?=:|\[)": "bold cyan",
    r"(?m)^proved(?=:|$)": "bold green",
}

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None, no_args_is_help=True)


def main() -> None:
    """Run the command line; a character that the output cannot show is escaped."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    app(prog_name="shapeproof")


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - the signature of a callback
    if wanted:
        typer.echo(f"shapeproof {shapeproof.__version__}")
        raise typer.Exit


_Version = Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")]


@app.callback()
def shapeproof_command(*, _version: _Version = False) -> None:
    """Verified torch.export: is a model right at every declared size?"""


@app.command()
def explain(
    target: Annotated[str, typer.Argument(metavar="MODULE.PATH:CALLABLE", help=f"What returns {_RETURNS}.")],
    save: Annotated[Path | None, typer.Option(metavar="PATH", help="Write the report as JSON, too.")] = None,
) -> None:
    """Check a model and print the report.

    Exit status: 0 proved, 1 refuted or vacuous, 3 undecided, 2 no verdict (a wrong call, or no trace).
    """
    try:
        with _Progress(f"loading {target}"):
            subject, check = _load(target), _checker()
        with _Progress("checking") as progress:
            report = _check(subject, check, progress)
        text = str(report)
    except UsageError as error:
        _fail(str(error))
    _print(text)
    if save is not None:
        _save(report, save)
    raise typer.Exit(EXIT_STATUS[report.status])


@dataclass(frozen=True, slots=True)
class _Subject:
    """What a target returns: the model, its example and what is declared of it."""

    model: Any
    args: Any
    kwargs: Any
    dynamic_shapes: Any
    constraints: Sequence[str] = ()


def _load(target: str) -> _Subject:
    """Import and call the target.

    Raises:
        UsageError: it cannot be done, or what it returns is something else.
    """
    module_name, _, path = target.partition(":")
    if not module_name or not path:
        raise UsageError(f"{target!r} is not of the form module.path:callable")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    with _refused(f"`{module_name}` cannot be imported"):
        module = importlib.import_module(module_name)
    try:
        build = operator.attrgetter(path)(module)
    except AttributeError:
        raise UsageError(f"`{module_name}` has no `{path}`") from None
    with _refused(f"`{target}` cannot be called"):
        found = build()
    if not isinstance(found, tuple | list) or len(found) not in {4, 5}:
        raise UsageError(f"`{target}` must return {_RETURNS}, but it returned {_brief(found)}")
    return _Subject(*found)


def _brief(value: object) -> str:
    size = f" of {len(value)}" if isinstance(value, tuple | list) else ""
    return f"a {type(value).__name__}{size}"


def _checker() -> Callable[..., Report]:
    """The function that checks a model. To load it is to load torch."""
    with _refused("the exporter cannot be loaded"):
        from shapeproof.export import check
    return check


def _check(subject: _Subject, check: Callable[..., Report], progress: _Progress) -> Report:
    """Check the model.

    Raises:
        UsageError: the declarations cannot be meant, or the model cannot be traced at its own example.
    """
    with _refused("the model could not be traced"):
        return check(
            subject.model,
            subject.args,
            subject.kwargs,
            dynamic_shapes=subject.dynamic_shapes,
            constraints=subject.constraints,
            progress=progress,
        )


@contextlib.contextmanager
def _refused(what: str) -> Iterator[None]:
    """Whatever the user's code raises becomes one sentence; `sys.exit` in it must not pass for a verdict."""
    try:
        yield
    except UsageError:
        raise
    except (Exception, SystemExit) as error:
        raise UsageError(f"{what}: {_last_line(error)}{_place(error)}") from error


def _last_line(error: BaseException) -> str:
    """The error as the last line of a traceback shows it; of a message of many lines, the first."""
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def _place(error: BaseException) -> str:
    """The innermost line of the user's code that the error went through."""
    place = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        file = Path(frame.f_code.co_filename)
        if str(frame.f_globals.get("__name__")).partition(".")[0] not in _NOT_THE_USERS and file.exists():
            place = f" ({file.name}:{line})"
    return place


_NOT_THE_USERS = {"contextlib", "copy", "importlib", "shapeproof", "torch"}


def _print(text: str) -> None:
    """The report on stdout. If nobody reads it to its end, the verdict stands."""
    console = Console()
    if console.is_terminal:
        console.print(_coloured(text), soft_wrap=True)
        return
    try:
        typer.echo(text)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _coloured(report: str) -> Text:
    """The text with its severity words in colour. Square brackets in it are text, not markup."""
    text = Text(report)
    for pattern, style in _COLOURS.items():
        text.highlight_regex(pattern, style)
    return text


def _save(report: Report, path: Path) -> None:
    try:
        report.save(path)
    except OSError as error:
        _fail(f"{path} cannot be written: {error.strerror}")


def _fail(sentence: str) -> NoReturn:
    typer.echo(f"shapeproof: {sentence}", err=True)
    raise typer.Exit(NO_VERDICT)


class _Progress:
    """What is being done, on stderr, once it has taken long: a spinner on a terminal, else a line for each new text."""

    def __init__(self, text: str) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._status = self._console.status(Text(text))
        self._late = threading.Event()
        self._timer = threading.Timer(PATIENCE, self._begin)
        self._timer.daemon = True

    def __call__(self, text: str) -> None:
        if self._console.is_terminal:
            self._status.update(Text(text))
        elif self._late.is_set():
            typer.echo(text, err=True)

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._timer.join()
        self._status.stop()

    def _begin(self) -> None:
        self._late.set()
        if self._console.is_terminal:
            self._status.start()
