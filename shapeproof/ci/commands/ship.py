"""`shapeproof ship TARGET --to CONSUMER -o FILE` checks a model, and writes it as a file that does what eager does."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from shapeproof.ci.commands.explain import Target, Traceback
from shapeproof.ci.commands.header import header_of, refuse_one_file, write_header
from shapeproof.ci.process.subjects import beside, check_subject, load_subject
from shapeproof.ci.process.tracebacks import told
from shapeproof.ci.running.display import Display
from shapeproof.ci.terminal import EXIT_STATUS, fail, show
from shapeproof.constraints.errors import UsageError

if TYPE_CHECKING:
    from shapeproof.ship import Verdict

EXAMPLES = """\b
Examples:
  shapeproof ship ./model.py:build --to onnx -o model.onnx
  shapeproof ship package.model:build --to executorch -o model.pte --format json"""


class Form(StrEnum):
    """The forms of a verdict on a file."""

    TEXT = "text"
    JSON = "json"


AsForm = Annotated[Form, typer.Option("--format", help="The form of what goes to stdout.")]


def ship(  # noqa: PLR0913 - what a command line takes
    target: Target,
    *,
    to: Annotated[str, typer.Option(metavar="onnx|executorch|aoti|pt2", help="The consumer.", show_default=False)],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The file.", show_default=False)],
    header: Annotated[
        Path | None, typer.Option(metavar="FILE.h", help="Write a C++ header, too, that checks the contract.")
    ] = None,
    form: AsForm = Form.TEXT,
    traceback: Traceback = False,
) -> None:
    """Write a model as a file for a consumer, once the model is proved and the file has done what eager does.

    Exit status: 0 it has, 1 the model is refuted, or the file differs or refuses sizes of the domain, 3 undecided, 2 no
    verdict. Files are written with 0 alone.
    """
    with refusing(whole=traceback), beside(), Display() as display:
        display.tell("", f"loading {target}")
        from shapeproof.ship import FileDiffers, Verdict
        from shapeproof.ship import ship as written
        from shapeproof.ship.targets import target_of

        refuse_one_file(header, output)
        consumer, subject = target_of(to), load_subject(target)
        display.tell("", "checking")
        report = check_subject(subject, lambda text: display.tell("", text))
        if report.status != "proved":
            verdict = Verdict(report.status, str(output), text=str(report))
        else:
            text = "" if header is None or report.contract is None else header_of(report.contract, header)
            display.tell("", f"converting to {output}, and running it beside eager")
            try:
                verdict = written(report.program, output, to=consumer, model=subject.model)
            except FileDiffers as differs:
                verdict = differs.verdict
            if header is not None and verdict.status == "same":
                write_header(text, header)
    finish(verdict, form)


@contextlib.contextmanager
def refusing(*, whole: bool) -> Iterator[None]:
    """Turn a UsageError inside the block into a sentence and the status of a call without a verdict."""
    try:
        yield
    except UsageError as error:
        fail(told(error, whole=whole))


def finish(verdict: Verdict, form: Form) -> NoReturn:
    """Show a verdict and exit with its status."""
    show(str(verdict) if form is Form.TEXT else json.dumps(dataclasses.asdict(verdict), indent=1))
    raise typer.Exit(EXIT_STATUS[verdict.status])
