"""Find sizes at which no data pass the model's checks, so that eager raises for all data.

A check on data stays in the program, and where it fails the program raises as eager does. Where a check always fails,
the model does not support the size, and the claim is refuted. The checks bound a size, or the difference of two, by its
least upper bound wherever all of them hold. Beyond that bound it is proved that no data pass, and eager is run once to
see it raise.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.records.decisions import Decision, Kind
from shapeproof.constraints.terms import symbol
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.explore.beside_eager import replay
from shapeproof.export.explore.beside_eager.corners import failing_point
from shapeproof.export.explore.findings import Exploration, Finding, Narrowing, Outcome, narrowed
from shapeproof.export.explore.inferred.narrowing import conceded
from shapeproof.export.trace.trial import DataCheck, Trial
from shapeproof.solver.answers.optimum import tighter
from shapeproof.solver.answers.simplify import simplified
from shapeproof.solver.answers.witness import find
from shapeproof.solver.budget import Budget
from shapeproof.solver.facts import Facts


def unmet(
    mod: torch.nn.Module, inputs: Inputs, found: Exploration, domain: Facts, budget: Budget
) -> list[Finding | Narrowing]:
    """Return the sizes at which no data pass: a finding with the smallest, or a narrowing of inferred sizes."""
    trial, seen = found.main.trial, list[Finding | Narrowing]()
    if not trial.checks:
        return seen
    declared = narrowed(domain, found.narrowings)
    names = frozenset(inputs.domain.symbols) & frozenset().union(*(formula.symbols for formula in trial.learned))
    for required in left_by(trial.facts, declared, names, budget):
        point = failing_point(inputs, required, declared, budget)
        if point is None:
            continue
        place = _first_unmet(trial, point, budget).place
        failure = replay.failure_at(mod, inputs, point, place.user)
        if failure is None:
            continue
        decision = Decision(required, Kind.ASSERTED, outcome=True, where=place.user, operator=place.operator)
        seen.append(
            conceded(decision, found, inputs, budget)
            or Finding(Outcome.RAISES, decision, point, f"{failure}; no data pass there", served=required)
        )
    return seen


def left_by(passing: Facts, declared: Facts, names: Collection[str], budget: Budget) -> list[Formula]:
    """Return what holds for declared sizes wherever some data pass all checks, beyond what the declared domain says.

    Args:
        passing: the facts that hold where the checks pass.
        declared: the declared domain.
        names: the sizes to examine, singly and in pairs.
        budget: the work that one solver question may cost.
    """
    facts = passing.fork()
    for formula in declared.formulas:
        facts.learn(formula)
    sizes = [symbol(name) for name in sorted(names)]
    ends = [end for size in sizes for end in (size, -size)]
    differences = [one - other for one, other in itertools.permutations(sizes, 2)]
    return simplified(list(tighter([*ends, *differences], facts, declared, budget)), declared, budget)


def _first_unmet(trial: Trial, point: dict[str, int], budget: Budget) -> DataCheck:
    """Return the first check that fails at these sizes for all data that pass the checks before it."""
    facts = trial.known.fork()
    for name, value in point.items():
        facts.learn(f.eq(symbol(name), value))
    checks = {check.formula: check for check in trial.checks}
    for formula in trial.learned:
        facts.learn(formula)
        if formula in checks and find(f.TRUE, facts, budget) is None:
            return checks[formula]
    return trial.checks[-1]
