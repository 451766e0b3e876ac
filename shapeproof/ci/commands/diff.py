"""`shapeproof diff [SPEC...]` checks every model and fails where one accepts less than is locked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from shapeproof.ci.commands.check import Options, OutputFile, Specs, checked, matches, spread
from shapeproof.ci.jobs import Outcome
from shapeproof.ci.locked.lock import NAME, Locked, read_lock
from shapeproof.ci.locked.narrowing import narrowing
from shapeproof.ci.render.narrowings import Compared, DiffFormat, render_diff
from shapeproof.ci.specs.spec import load_specs
from shapeproof.ci.terminal import EXIT_STATUS, NO_VERDICT, show
from shapeproof.constraints.records.diagnostics import Diagnostic

EXAMPLES = """\b
Examples:
  shapeproof diff --model 'decoder*'
  shapeproof diff --cached --format github"""

_STATUS = {"narrowed": 1, "no-verdict": NO_VERDICT, "undecided": EXIT_STATUS["undecided"]}
"""The exit status of each kind of narrowing, worst first."""


@spread("exit_first")
def diff(
    specs: Specs = None,
    *,
    form: Annotated[DiffFormat, typer.Option("--format", help="The form of the result.")] = DiffFormat.TEXT,
    output: OutputFile = None,
    options: Options,
) -> None:
    """Compare what each model accepts now with shapeproof.lock, beside the spec.

    Exit status: 0 if every model accepts all that it did; else 1 if one does not, or is gone, 2 if one has no verdict,
    3 if it could not be decided.
    """
    files = load_specs(specs or [])
    folders = {file.path.resolve().parent: None for file in files}
    locks = {str(folder): _chosen(read_lock(folder), options.models or ["*"]) for folder in folders}
    outcomes = checked(specs, options)
    found = list(_compared(locks, outcomes))
    new = [check.name for check in (each.check for each in outcomes) if check.name not in locks[check.job.root]]
    now = {(each.check.job.root, each.check.name): each.result.contract.shipped for each in outcomes}
    contracts = [(old.contract, now.get((root, name))) for root, lock in locks.items() for name, old in lock.items()]
    show(render_diff(found, new, form, contracts), commands=form is DiffFormat.GITHUB, output=output)
    kinds = {lost.id for _, lost in found if lost}
    raise typer.Exit(next((status for kind, status in _STATUS.items() if kind in kinds), 0))


def _chosen(lock: Mapping[str, Locked], patterns: Sequence[str]) -> dict[str, Locked]:
    return {name: each for name, each in lock.items() if matches(name, patterns)}


def _compared(locks: Mapping[str, Mapping[str, Locked]], outcomes: Sequence[Outcome]) -> Iterator[Compared]:
    here = {(outcome.check.job.root, outcome.check.name): outcome for outcome in outcomes}
    for root, lock in locks.items():
        for name, before in lock.items():
            outcome = here.get((root, name))
            gone = Diagnostic("narrowed", "it is locked, but in no spec any more", file=str(Path(root, NAME)), line=1)
            yield name, narrowing(before, outcome) if outcome else gone
