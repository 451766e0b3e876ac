"""`shapeproof check [SPEC...]` checks every model of the specs and exits with what is worst."""

from __future__ import annotations

import difflib
import fnmatch
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from shapeproof.ci.display import Display
from shapeproof.ci.executors import Executor, Local
from shapeproof.ci.jobs import TIMEOUT, Check, Outcome, checks_of
from shapeproof.ci.render import Format, render
from shapeproof.ci.run import run_checks
from shapeproof.ci.spec import load_specs
from shapeproof.ci.terminal import EXIT_STATUS, NO_VERDICT, fail, show
from shapeproof.constraints.errors import UsageError

Specs = Annotated[
    list[Path] | None,
    typer.Argument(metavar="SPEC", help="Spec files; without any, shapeproof.toml or pyproject.toml here."),
]
Processes = Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="How many models at a time.")]
Where = Annotated[
    str | None, typer.Option("--executor", metavar="dask://HOST:PORT", help="Check on a Dask cluster, not here.")
]
Since = Annotated[
    str | None,
    typer.Option(
        "--changed-since",
        metavar="REV",
        help="Where code, spec and versions are as they were in REV, and have been checked: take that verdict.",
    ),
]
Timeout = Annotated[
    float,
    typer.Option(metavar="SECONDS", min=0, help="How long a model may take where its spec does not say; 0: ever."),
]

Models = Annotated[
    list[str] | None,
    typer.Option("--model", "-m", metavar="NAME", help="Check this model alone, or those that match (decoder*)."),
]


def check(  # noqa: PLR0913, PLR0917 - the options of a command
    specs: Specs = None,
    form: Annotated[Format, typer.Option("--format", help="The form of what goes to stdout.")] = Format.TEXT,
    since: Since = None,
    jobs: Processes = None,
    executor: Where = None,
    timeout: Timeout = TIMEOUT,
    models: Models = None,
) -> None:
    """Check all models of the specs, each in a process of its own.

    Exit status: 0 if every verdict is one that its spec accepts; else 1 if one is refuted, vacuous or not expected,
    2 if there is one model without a verdict, 3 if one is undecided.
    """
    try:
        outcomes = checked(specs, jobs, executor, since, timeout, models)
    except UsageError as error:
        fail(str(error))
    show(render(outcomes, form), commands=form is Format.GITHUB)
    raise typer.Exit(exit_status(outcomes))


def checked(  # noqa: PLR0913, PLR0917 - the options of a command
    specs: list[Path] | None,
    jobs: int | None,
    executor: str | None,
    since: str | None,
    timeout: float = TIMEOUT,
    models: Sequence[str] | None = None,
) -> list[Outcome]:
    """The outcome of every model of the specs, or of those whose names match.

    Raises:
        UsageError: a spec cannot be meant, or there is no such model, cluster or revision.
    """
    wanted = selected([each for file in load_specs(specs or []) for each in checks_of(file, timeout)], models or ["*"])
    with Display() as display:
        return run_checks(wanted, _executor(executor, jobs), display, since)


def selected(checks: Sequence[Check], patterns: Sequence[str]) -> list[Check]:
    """The checks whose names match one of these, as in a shell.

    Raises:
        UsageError: one of them matches no name.
    """
    for pattern in patterns:
        if not any(fnmatch.fnmatchcase(check.name, pattern) for check in checks):
            near = difflib.get_close_matches(pattern, [check.name for check in checks], 1)
            raise UsageError(f"no model is called {pattern!r}" + (f": did you mean {near[0]!r}?" if near else ""))
    return [check for check in checks if any(fnmatch.fnmatchcase(check.name, pattern) for pattern in patterns)]


def exit_status(outcomes: Sequence[Outcome]) -> int:
    """The exit status of what is worst: a wrong verdict, then none, then undecided."""
    found = {_status(outcome) for outcome in outcomes if not outcome.passed}
    return next((status for status in (1, NO_VERDICT, EXIT_STATUS["undecided"]) if status in found), 0)


def _status(outcome: Outcome) -> int:
    if outcome.result.status is None:
        return NO_VERDICT
    return EXIT_STATUS[outcome.result.status] or 1  # proved, where that is not expected


def _executor(address: str | None, jobs: int | None) -> Executor:
    if address is None:
        return Local(jobs or os.cpu_count() or 1)
    if not address.startswith("dask://"):
        raise UsageError(f"{address!r} is not of the form dask://HOST:PORT")
    try:
        from shapeproof.ci.cluster import Dask
    except ModuleNotFoundError as error:
        raise UsageError(f"--executor needs the package `{error.name}`: pip install 'shapeproof[dask]'") from None
    return Dask(address)
