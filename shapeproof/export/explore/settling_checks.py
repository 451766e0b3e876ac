"""Finds the checks of a program that settle its questions about data, once the model makes these checks as well.

Torch guesses an answer about data (`x[:, :m] + y` with `y.shape[1] == m`: the sizes are equal) and the program checks
the guess at run time. Eager may accept what that check refuses (`m > x.shape[1] == 1`, which broadcasts). A model that
makes the check itself means the same in both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.records.decisions import Decision, Kind
from shapeproof.export.explore.explorer import Explorer
from shapeproof.export.explore.findings import Exploration, Finding, Narrowing, Outcome
from shapeproof.export.limits import COSTLY_TRIES
from shapeproof.export.trace.trial import Trial
from shapeproof.solver.answers.blame import without_needless
from shapeproof.solver.answers.simplify import simplified
from shapeproof.solver.prove import implied


def settled_by_checks(told: Sequence[Finding], found: Exploration, explorer: Explorer) -> list[Finding]:
    """Return the findings, with those about data replaced by one for each check that the model should make.

    The findings stay as they are unless the checks ask for less, and an exploration of all inputs that pass them
    leaves nothing about data.
    """
    about_data = [finding for finding in told if finding.outcome is Outcome.DATA]
    checks = _asking_less(about_data, found.main.trial)
    if not 0 < len(checks) <= COSTLY_TRIES or not _suffice(checks, found, explorer):
        return list(told)
    checks = without_needless(checks, lambda fewer, _: bool(fewer) and _suffice(fewer, found, explorer))
    first = about_data[0]
    stated = [replace(first, decision=each.decision, joint=each.requirement) for each in checks]
    return [*stated, *(finding for finding in told if finding.outcome is not Outcome.DATA)]


def _asking_less(about_data: Sequence[Finding], trial: Trial) -> list[Narrowing]:
    """Return the operators' checks; none if these ask for more, or if they leave a branch of the model open."""
    checks = list(_guessed(trial))
    passing = trial.known.assuming(*(check.requirement for check in checks))
    open_ = [finding for finding in about_data if not implied(finding.requirement, passing)]
    return checks if open_ and not any(finding.decision.of_the_model for finding in open_) else []


def _guessed(trial: Trial) -> Iterator[Narrowing]:
    """Yield the checks on data that operators make, simplified by what is known where they are made."""
    for check in trial.learned.checks:
        here = check.place
        if here.operator is None or check.inside:
            continue
        parts = simplified([check.formula], trial.facts_before(check.formula))
        decision = Decision(check.formula, Kind.ASSERTED, True, here.user, here.operator, here.framework)  # noqa: FBT003
        yield Narrowing(f.conjunction(*parts), decision)


def _suffice(checks: Sequence[Narrowing], found: Exploration, explorer: Explorer) -> bool:
    known: set[Formula] = {each.requirement for each in found.findings if each.outcome is not Outcome.DATA}
    return all(finding.requirement in known for finding in explorer.left_under(checks, found))
