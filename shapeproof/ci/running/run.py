"""Runs the checks of specs: recalls answers that still hold, runs the rest on an executor, remembers new answers."""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from shapeproof.ci.jobs import Check, Outcome, Result
from shapeproof.ci.process.digests import digest
from shapeproof.ci.running.cache import recalled, remember
from shapeproof.ci.running.display import Display
from shapeproof.ci.running.executors import Executor
from shapeproof.constraints.errors import UsageError


def still_holding(checks: Sequence[Check], revision: str | None) -> dict[int, Result]:
    """Return the earlier verdicts, by index, that still hold and, given a revision, depend on no file changed since.

    Raises:
        UsageError: there is no such revision.
    """
    roots = {check.job.root for check in checks}
    changed = {root: frozenset[str]() if revision is None else changed_since(revision, Path(root)) for root in roots}
    now = functools.cache(digest)  # reads each file once
    found = {index: recalled(check.job, changed[check.job.root], now) for index, check in enumerate(checks)}
    return {index: result for index, result in found.items() if result is not None}


def changed_since(revision: str, folder: Path) -> frozenset[str]:
    """Return the real paths of files that differ from the revision: changed, new or deleted.

    Raises:
        UsageError: the folder is in no repository, or there is no such revision.
    """
    top = Path(_git(folder, "rev-parse", "--show-toplevel", failing=f"{folder} is in no git repository").strip("\n"))
    if revision == "HEAD" and not _git(top, "rev-list", "--all", "--max-count=1", failing="").strip():
        return frozenset({os.path.realpath(top)})  # no commits yet: every file is new
    unknown = f"there is no revision {revision!r} in {top}"
    commit = _git(top, "rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}", failing=unknown).strip()
    changed = _git(top, "diff", "--name-only", "--no-renames", "-z", commit, "--", failing=unknown)
    new = _git(top, "ls-files", "--others", "--exclude-standard", "-z", failing=unknown)
    return frozenset(os.path.realpath(top / name) for name in f"{changed}{new}".split("\0") if name)


def _git(folder: Path, *arguments: str, failing: str) -> str:
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        raise UsageError(failing) from None
    return os.fsdecode(done.stdout)


class Interrupted(KeyboardInterrupt):
    """The user has interrupted a run; `outcomes` holds the finished checks and marks the rest as skipped."""

    def __init__(self, outcomes: list[Outcome]) -> None:
        super().__init__()
        self.outcomes = outcomes


def run_checks(
    checks: Sequence[Check],
    executor: Executor,
    display: Display,
    earlier: Mapping[int, Result],
    *,
    exit_first: bool,
) -> list[Outcome]:
    """Return the outcome of each check, in order; `exit_first`: stop at the first check that does not pass.

    `earlier`: the verdicts that are not asked for again, by index.

    Raises:
        Interrupted: the user has interrupted the run.
    """
    found = {index: Outcome(checks[index], result, unchanged=True) for index, result in earlier.items()}
    waiting = [index for index in range(len(checks)) if index not in found]
    if exit_first and (failed := next((each for each in found.values() if not each.passed), None)):
        return _with_the_rest(checks, found, f"not run, since {failed.check.name} did not pass")
    answers = executor(
        [checks[index].job for index in waiting], lambda place, text: display.tell(checks[waiting[place]].name, text)
    )
    why = "not run"
    try:
        with contextlib.closing(answers):  # an interrupt here kills the processes, too
            for place, answer in answers:
                check = checks[waiting[place]]
                found[waiting[place]] = outcome = Outcome(check, answer.result)
                remember(check.job, answer)
                display.done(check.name, _verdict(outcome))
                if exit_first and not outcome.passed:
                    why = f"not run to its end, since {check.name} did not pass"
                    break
    except KeyboardInterrupt:
        raise Interrupted(_with_the_rest(checks, found, "not run to its end, since the run was interrupted")) from None
    return _with_the_rest(checks, found, why)


def _with_the_rest(checks: Sequence[Check], found: Mapping[int, Outcome], why: str) -> list[Outcome]:
    """The outcomes in the order of the checks; those without an outcome are skipped, for the reason `why`."""
    left = Result(None, why)
    return [found.get(index, Outcome(check, left, skipped=True)) for index, check in enumerate(checks)]


def _verdict(outcome: Outcome) -> str:
    result = outcome.result
    return f"{outcome.check.name}: {result.status or 'no verdict'} ({result.seconds:.1f} s)"
