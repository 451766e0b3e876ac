"""`shapeproof check [SPEC...]` checks every model of the specs and exits with the worst status."""

from __future__ import annotations

import fnmatch
import functools
import inspect
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from shapeproof.ci.commands.explain import Quiet, Traceback, Verbose
from shapeproof.ci.jobs import TIMEOUT, Check, Outcome, checks_of
from shapeproof.ci.render import Format, render
from shapeproof.ci.running.display import Display, Verbosity
from shapeproof.ci.running.executors import Executor, Local
from shapeproof.ci.running.repairs import repaired
from shapeproof.ci.running.run import Interrupted, run_checks, still_holding
from shapeproof.ci.specs.spec import load_specs
from shapeproof.ci.terminal import EXIT_STATUS, INTERRUPTED, NO_VERDICT, say, show
from shapeproof.constraints.errors import UsageError, nearest

EXAMPLES = """\b
Examples:
  shapeproof check
  shapeproof check nets/shapeproof.toml --model 'decoder*' -x
  shapeproof check --fix
  shapeproof check --format junit -o shapes.xml"""

_WORD = re.compile(r"[\w.+-]+")
"""A name that a shell reads as one word without quotes."""


def _models(incomplete: str) -> Iterator[str]:
    """Completions: the names of the models in the spec here; none without a spec."""
    try:
        files = load_specs([])
    except UsageError:
        return
    yield from (
        name for file in files for name in file.spec.models if name.startswith(incomplete) and _WORD.fullmatch(name)
    )


Specs = Annotated[
    list[Path] | None,
    typer.Argument(metavar="SPEC", help="Spec files; without any, shapeproof.toml or pyproject.toml here."),
]


OutputFile = Annotated[
    Path | None, typer.Option("--output-file", "-o", metavar="FILE", help="Write the result there, not to stdout.")
]
_ROUNDS = 3
"""A repair is proved, or has a repair that is, in at most so many steps."""


@dataclass(frozen=True, slots=True)
class Options:
    """How models are checked: the options common to check, lock and diff."""

    models: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            "-m",
            metavar="NAME",
            autocompletion=_models,
            help="Check this model alone, or those that match (decoder*); may be given several times.",
        ),
    ] = None
    exit_first: Annotated[
        bool, typer.Option("--exitfirst", "-x", help="Stop at the first model that does not pass.")
    ] = False
    cached: Annotated[
        bool,
        typer.Option(
            "--cached", help="Where code, spec and versions are as when they were checked last: take that verdict."
        ),
    ] = False
    since: Annotated[
        str | None,
        typer.Option(
            "--changed-since",
            metavar="REV",
            help="Where code, spec and versions are as they were in REV, and have been checked: take that verdict.",
        ),
    ] = None
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="How many models at a time.")] = None
    executor: Annotated[
        str | None, typer.Option("--executor", metavar="dask://HOST:PORT", help="Check on a Dask cluster, not here.")
    ] = None
    timeout: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0, help="How long a model may take where its spec does not say; 0: ever."),
    ] = TIMEOUT
    quiet: Quiet = False
    verbose: Verbose = False
    traceback: Traceback = False


def spread(*without: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command each of the `Options` as an option of its own, except those named here; it may be interrupted."""

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def spread_out(*args: Any, **given: Any) -> None:
            own = {each.name: given.pop(each.name) for each in shared if each.name in given}
            try:
                command(*args, **given, options=Options(**own))
            except Interrupted as stopped:
                _exit_interrupted(stopped)

        shared = [
            each for each in inspect.signature(Options, eval_str=True).parameters.values() if each.name not in without
        ]
        own = [each for each in inspect.signature(command, eval_str=True).parameters.values() if each.name != "options"]
        parameters = [*own, *(each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in shared)]
        vars(spread_out)["__signature__"] = inspect.Signature(parameters)
        return spread_out

    return decorated


@spread()
def check(
    specs: Specs = None,
    *,
    form: Annotated[Format, typer.Option("--format", help="The form of the result.")] = Format.TEXT,
    output: OutputFile = None,
    fix: Annotated[
        bool, typer.Option("--fix", help="Write proved repairs into the specs, and show the change.")
    ] = False,
    options: Options,
) -> None:
    """Check all models and operators of the specs, each in a process of its own.

    Exit status: 0 if every verdict is one that its spec accepts; else 1 if one is refuted, vacuous or not expected,
    2 if there is one model without a verdict, 3 if one is undecided.
    """

    def give(outcomes: Sequence[Outcome]) -> None:
        show(render(outcomes, form, quiet=options.quiet), commands=form is Format.GITHUB, output=output)

    try:
        outcomes = checked(specs, options, operators=True)
        for _ in range(_ROUNDS if fix else 0):
            changes = repaired(outcomes)
            if not changes:
                break
            (show if form is Format.TEXT and output is None else say)("\n".join(changes))
            outcomes = checked(specs, options, operators=True)
    except Interrupted as stopped:
        give(stopped.outcomes)
        raise
    give(outcomes)
    raise typer.Exit(exit_status(outcomes))


def checked(specs: list[Path] | None, options: Options, *, operators: bool = False) -> list[Outcome]:
    """Return the outcome of each model, and of each operator if `operators`; with `options.models`, of matching names.

    Raises:
        UsageError: a spec is invalid, or there is no such model, cluster or revision.
        Interrupted: the user has interrupted the run.
    """
    verbosity = Verbosity.of(quiet=options.quiet, verbose=options.verbose)
    shown = {"traceback": options.traceback, "verbose": options.verbose}
    files = load_specs(specs or [])
    found = [each for file in files for each in checks_of(file, options.timeout, operators=operators, **shown)]
    wanted = selected(found, options.models or ["*"])
    with Display(verbosity) as display:
        executor = _executor(options.executor, options.jobs)
        earlier = still_holding(wanted, options.since) if options.cached or options.since is not None else {}
        return run_checks(wanted, executor, display, earlier, exit_first=options.exit_first)


def _exit_interrupted(stopped: Interrupted) -> NoReturn:
    """Say which models were not checked, and exit."""
    open_ = [outcome.check.name for outcome in stopped.outcomes if outcome.skipped]
    done = len(stopped.outcomes) - len(open_)
    rest = f", not {', '.join(open_)}" if open_ else ""
    say(f"shapeproof: interrupted: {done} of {len(stopped.outcomes)} models were checked{rest}")
    raise typer.Exit(INTERRUPTED)


def selected(checks: Sequence[Check], patterns: Sequence[str]) -> list[Check]:
    """Return the checks whose names match a pattern, as in a shell.

    Raises:
        UsageError: a pattern matches no name.
    """
    for pattern in patterns:
        if not any(matches(check.name, [pattern]) for check in checks):
            raise UsageError(f"no model is called {pattern!r}{nearest(pattern, [check.name for check in checks])}")
    return [check for check in checks if matches(check.name, patterns)]


def matches(name: str, patterns: Sequence[str]) -> bool:
    """True if a name matches one of the patterns, as in a shell."""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def exit_status(outcomes: Sequence[Outcome]) -> int:
    """Return the worst exit status of the checks: first a wrong verdict, then none, then undecided."""
    statuses = (outcome.result.status for outcome in outcomes if not outcome.passed and not outcome.skipped)
    found = {NO_VERDICT if each is None else EXIT_STATUS[each] or 1 for each in statuses}  # 1: a proof, not expected
    return next((status for status in (1, NO_VERDICT, EXIT_STATUS["undecided"]) if status in found), 0)


def _executor(address: str | None, jobs: int | None) -> Executor:
    if address is None:
        return Local(jobs or os.cpu_count() or 1).run
    if not address.startswith("dask://"):
        raise UsageError(f"{address!r} is not of the form dask://HOST:PORT")
    try:
        from shapeproof.ci.running.cluster import Dask
    except ModuleNotFoundError as error:
        raise UsageError(f"--executor needs the package `{error.name}`: pip install 'shapeproof[dask]'") from None
    return Dask(address).run
