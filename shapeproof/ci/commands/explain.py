"""`shapeproof explain module.path:callable` prints the report of a model and exits with its verdict."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from shapeproof.ci.subjects import RETURNS, check_subject, load_subject
from shapeproof.ci.terminal import EXIT_STATUS, Progress, fail, show, width
from shapeproof.constraints.errors import UsageError
from shapeproof.export.report.render import render


def explain(
    target: Annotated[str, typer.Argument(metavar="MODULE.PATH:CALLABLE", help=f"What returns {RETURNS}.")],
    save: Annotated[Path | None, typer.Option(metavar="PATH", help="Write the report as JSON, too.")] = None,
    certificate: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Write what the solver proved as SMT-LIB, for `recheck`.")
    ] = None,
) -> None:
    """Check a model and print the report.

    Exit status: 0 proved, 1 refuted or vacuous, 3 undecided, 2 no verdict (a wrong call, or no trace).
    """
    try:
        with Progress(f"loading {target}"):
            subject = load_subject(target)
        with Progress("checking") as progress:
            report = check_subject(subject, progress)
        text = render(report, width())
    except UsageError as error:
        fail(str(error))
    show(text)
    if save is not None:
        _write(report.save, save)
    if certificate is not None:
        with Progress("writing the certificate") as progress:
            _write(functools.partial(report.certificate, progress=progress), certificate)
    raise typer.Exit(EXIT_STATUS[report.status])


def _write(write: Callable[[Path], object], path: Path) -> None:
    try:
        write(path)
    except OSError as error:
        fail(f"{path} cannot be written: {error.strerror}")
