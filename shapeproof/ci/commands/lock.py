"""`shapeproof lock [SPEC...]` writes the proved contract of each model; `shapeproof diff` compares with it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from shapeproof.ci.commands.check import (
    Cached,
    First,
    Options,
    Processes,
    Since,
    Specs,
    Timeout,
    Where,
    checked,
    exit_status,
    interrupted,
)
from shapeproof.ci.commands.explain import Quiet, Traceback, Verbose
from shapeproof.ci.jobs import TIMEOUT, Outcome
from shapeproof.ci.locked.lock import write_lock
from shapeproof.ci.render import Format, render
from shapeproof.ci.running.run import Interrupted
from shapeproof.ci.terminal import fail, say, show
from shapeproof.constraints.errors import UsageError

EXAMPLES = "Example: shapeproof lock, then commit shapeproof.lock"


def lock(  # noqa: PLR0913 - the options of a command
    specs: Specs = None,
    *,
    exit_first: First = False,
    cached: Cached = False,
    since: Since = None,
    jobs: Processes = None,
    executor: Where = None,
    timeout: Timeout = TIMEOUT,
    quiet: Quiet = False,
    verbose: Verbose = False,
    traceback: Traceback = False,
) -> None:
    """Check all models, and write what each accepts to shapeproof.lock, beside the spec.

    Nothing is written unless every verdict is one that its spec accepts. Exit status: that of check.
    """
    options = Options(jobs, executor, since, cached, timeout, None, exit_first, quiet, verbose, traceback)
    try:
        outcomes = checked(specs, options)
        show(render(outcomes, Format.TEXT, quiet=quiet))
        status = exit_status(outcomes)
        if status == 0:
            _write(outcomes)
        else:
            say("nothing is locked: not every verdict is one that the spec accepts")
    except UsageError as error:
        fail(str(error))
    except Interrupted as stopped:
        show(render(stopped.outcomes, Format.TEXT, quiet=quiet))
        say("nothing is locked: not every model was checked")
        interrupted(stopped)
    raise typer.Exit(status)


def _write(outcomes: Sequence[Outcome]) -> None:
    """Write a lock beside each spec."""
    for root in dict.fromkeys(outcome.check.job.root for outcome in outcomes):
        path = write_lock(Path(root), [outcome for outcome in outcomes if outcome.check.job.root == root])
        say(f"wrote {path}")
