"""`shapeproof lock [SPEC...]` writes the proved contract of each model; `shapeproof diff` compares with it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from shapeproof.ci.commands.check import Options, Specs, checked, exit_status, spread
from shapeproof.ci.jobs import Outcome
from shapeproof.ci.locked.lock import write_lock
from shapeproof.ci.render import Format, render
from shapeproof.ci.running.run import Interrupted
from shapeproof.ci.terminal import say, show

EXAMPLES = "Example: shapeproof lock, then commit shapeproof.lock"


@spread("models")
def lock(specs: Specs = None, *, options: Options) -> None:
    """Check all models, and write what each accepts to shapeproof.lock, beside the spec.

    Nothing is written unless every verdict is one that its spec accepts. Exit status: that of check.
    """
    try:
        outcomes = checked(specs, options)
    except Interrupted as stopped:
        show(render(stopped.outcomes, Format.TEXT, quiet=options.quiet))
        say("nothing is locked: not every model was checked")
        raise
    show(render(outcomes, Format.TEXT, quiet=options.quiet))
    status = exit_status(outcomes)
    if status == 0:
        _write(outcomes)
    else:
        say("nothing is locked: not every verdict is one that the spec accepts")
    raise typer.Exit(status)


def _write(outcomes: Sequence[Outcome]) -> None:
    """Write a lock beside each spec."""
    for root in dict.fromkeys(outcome.check.job.root for outcome in outcomes):
        path = write_lock(Path(root), [outcome for outcome in outcomes if outcome.check.job.root == root])
        say(f"wrote {path}")
