"""`shapeproof lock [SPEC...]` writes down what is proved of each model; `shapeproof diff` compares with it."""

from __future__ import annotations

from pathlib import Path

import typer

from shapeproof.ci.commands.check import Processes, Since, Specs, Timeout, Where, checked, exit_status
from shapeproof.ci.jobs import TIMEOUT
from shapeproof.ci.lock import write_lock
from shapeproof.ci.render import Format, render
from shapeproof.ci.terminal import fail, say, show
from shapeproof.constraints.errors import UsageError


def lock(
    specs: Specs = None, since: Since = None, jobs: Processes = None, executor: Where = None, timeout: Timeout = TIMEOUT
) -> None:
    """Check all models, and write what each accepts to shapeproof.lock, beside the spec.

    Nothing is written unless every verdict is one that its spec accepts. Exit status: that of check.
    """
    try:
        outcomes = checked(specs, jobs, executor, since, timeout)
        show(render(outcomes, Format.TEXT))
        if (status := exit_status(outcomes)) == 0:
            for root in dict.fromkeys(outcome.check.job.root for outcome in outcomes):
                path = write_lock(Path(root), [outcome for outcome in outcomes if outcome.check.job.root == root])
                say(f"wrote {path}")
        else:
            say("nothing is locked: not every verdict is one that the spec accepts")
    except UsageError as error:
        fail(str(error))
    raise typer.Exit(status)
