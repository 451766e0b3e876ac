"""Runs the checks of specs: recalls what still holds, has an executor do the rest, remembers what came of it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from shapeproof.ci.cache import Recall, remember
from shapeproof.ci.changes import changed_since
from shapeproof.ci.display import Display
from shapeproof.ci.executors import Executor
from shapeproof.ci.identity import versions
from shapeproof.ci.jobs import Check, Outcome, Result
from shapeproof.ci.plain import plain_line
from shapeproof.ci.terminal import say


def run_checks(
    checks: Sequence[Check], executor: Executor, display: Display, changed_since_revision: str | None = None
) -> list[Outcome]:
    """The outcome of each check, in their order.

    Raises:
        UsageError: there is no such revision.
        KeyboardInterrupt: somebody has interrupted; what was done is said.
    """
    recalled = _recalled(checks, changed_since_revision) if changed_since_revision is not None else {}
    found = {index: Outcome(checks[index], result, unchanged=True) for index, result in recalled.items()}
    waiting = [index for index in range(len(checks)) if index not in found]
    jobs = [checks[index].job for index in waiting]
    answers = executor.run(jobs, lambda place, text: display.tell(checks[waiting[place]], text))
    try:
        with contextlib.closing(answers):  # so that an interrupt here ends the processes, too
            for place, answer in answers:
                check = checks[waiting[place]]
                found[waiting[place]] = Outcome(check, answer.result)
                remember(check.job, answer)
                display.done(check, answer.result)
    except KeyboardInterrupt:
        open_ = [plain_line(check.name) for index, check in enumerate(checks) if index not in found]
        say(f"shapeproof: interrupted: {len(found)} of {len(checks)} models were checked, not {', '.join(open_)}")
        raise
    return [found[index] for index in range(len(checks))]


def _recalled(checks: Sequence[Check], revision: str) -> dict[int, Result]:
    here = versions()
    memory = {root: Recall(changed_since(revision, Path(root)), here) for root in {check.job.root for check in checks}}
    found = {index: memory[check.job.root].result(check.job) for index, check in enumerate(checks)}
    return {index: result for index, result in found.items() if result is not None}
