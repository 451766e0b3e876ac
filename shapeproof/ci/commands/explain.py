"""`shapeproof explain TARGET` prints the report of a model and exits with its verdict."""

from __future__ import annotations

import ast
import contextlib
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shapeproof.ci.pages import pages
from shapeproof.ci.process.subjects import RETURNS, beside, check_subject, is_file, load_subject, questions_told
from shapeproof.ci.process.tracebacks import told
from shapeproof.ci.running.display import Display, Verbosity
from shapeproof.ci.specs.spec import load_specs
from shapeproof.ci.specs.spec_errors import FORM
from shapeproof.ci.terminal import EXIT_STATUS, INTERRUPTED, fail, say, show, width
from shapeproof.constraints.errors import UsageError
from shapeproof.export.report.render import SHOWN, findings_text, page_command, pointers, render
from shapeproof.files import read_bounded, writing

if TYPE_CHECKING:
    from shapeproof.export.report.report import Report

EXAMPLES = """\b
Examples:
  shapeproof explain ./model.py:build
  shapeproof explain package.model:build --save report.json"""

Target = Annotated[
    str, typer.Argument(metavar="TARGET", help=f"{FORM}; the callable returns {RETURNS}.", show_default=False)
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show what did not pass and the last line, nothing else.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Say each step with its time, and what the solver was asked.")
]
Traceback = Annotated[
    bool, typer.Option("--traceback", help="Show the whole traceback where the code of a model raises or crashes.")
]


def explain(  # noqa: PLR0913 - the options of a command
    target: Target,
    *,
    save: Annotated[Path | None, typer.Option(metavar="PATH", help="Write the report as JSON, too.")] = None,
    certificate: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Write what the solver proved as SMT-LIB, for `recheck`.")
    ] = None,
    show_whole: Annotated[int, typer.Option("--show", metavar="N", min=0, help="Tell N findings whole.")] = SHOWN,
    quiet: Quiet = False,
    verbose: Verbose = False,
    traceback: Traceback = False,
) -> None:
    """Check a model and print the report.

    Exit status: 0 proved, 1 refuted or vacuous, 3 undecided, 2 no verdict (a wrong call, or no trace).
    """
    doing = [""]

    def progress(text: str) -> None:
        doing[:] = [text]
        display.tell("", text)

    try:
        verbosity = Verbosity.of(quiet=quiet, verbose=verbose)
        _refuse_a_word(target)
        with beside(), Display(verbosity) as display:
            progress(f"loading {target}")
            subject = load_subject(target)
            progress("checking")
            with questions_told(say) if verbose else contextlib.nullcontext():
                report = check_subject(subject, progress)
        show(_text(report, show_whole, quiet=quiet))
        if save is not None:
            with writing(save):
                report.save(save)
        if certificate is not None:
            with Display(verbosity) as display, writing(certificate):
                report.certificate(certificate, progress=progress)
    except UsageError as error:
        fail(told(error, whole=traceback))
    except KeyboardInterrupt:
        say(f"shapeproof: interrupted while {doing[0]}")
        raise typer.Exit(INTERRUPTED) from None
    raise typer.Exit(EXIT_STATUS[report.status])


def _refuse_a_word(target: str) -> None:
    """Exit if the target is the name of something else, which another command takes."""
    if ":" not in target and (hint := instead(target)):
        fail(f"{target!r} is not of the form {FORM}{hint}")


def instead(word: str) -> str:
    """Return the end of a sentence about a word that names no callable: the command to type instead, if any."""
    typed = shlex.quote(word)
    if word in pages():
        return f"; it is a diagnostic: type `{page_command(word)}`"
    if ":" in word:
        return f"; type `shapeproof explain {typed}`"
    if word.endswith(".toml") and Path(word).is_file():
        return f"; it is a spec: type `shapeproof check {typed}`"
    with contextlib.suppress(UsageError):
        if any(word in file.spec.models for file in load_specs([])):
            return f"; it is a model of the spec: type `shapeproof check --model {typed}`"
    file = Path(word if is_file(word) else f"{word.replace('.', '/')}.py")
    return f"; type `shapeproof explain {typed}:{_builder(file)}`" if file.is_file() else ""


def _builder(file: Path) -> str:
    """Return the name of the function that builds a model: `build`, else the first that needs no arguments."""
    with contextlib.suppress(OSError, ValueError, SyntaxError, RecursionError):
        found = [node for node in ast.parse(read_bounded(file)).body if isinstance(node, ast.FunctionDef)]
        free = [node.name for node in found if len(node.args.args) == len(node.args.defaults)]
        return "build" if "build" in free or not free else free[0]
    return "build"


def _text(report: Report, whole: int, *, quiet: bool) -> str:
    """Return the report; `quiet`: the findings and the verdict."""
    if quiet:
        return "\n".join([*findings_text(report.diagnostics, width(), whole), report.status])
    return render(report, width(), whole) + pointers(report.diagnostics)
