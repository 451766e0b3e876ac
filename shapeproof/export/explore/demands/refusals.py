"""Find what eager rejects for all data and torch leaves to run time: indices out of range, empty reductions.

The requirements are read from a traced graph (indices.py, reductions.py). A requirement becomes a finding only where
eager is seen to raise at a point that violates it.
"""

from __future__ import annotations

import torch

from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.records.decisions import Decision, Kind
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.explore.beside_eager import replay
from shapeproof.export.explore.beside_eager.corners import failing_point
from shapeproof.export.explore.demands import indices, reductions
from shapeproof.export.explore.demands.unmet import left_by
from shapeproof.export.explore.findings import Exploration, Finding, Narrowing, Outcome, narrowed
from shapeproof.export.explore.inferred.narrowing import conceded
from shapeproof.export.graph import nodes
from shapeproof.solver.budget import Budget
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import decide


def refusals(
    mod: torch.nn.Module, inputs: Inputs, found: Exploration, domain: Facts, budget: Budget
) -> list[Finding | Narrowing]:
    """Return what the domain allows and eager rejects: a finding, or a narrowing of inferred sizes."""
    program, facts = found.main.program, narrowed(domain, found.narrowings)
    seen: list[Finding | Narrowing] = []
    required = [*indices.requirements(program), *reductions.requirements(program)] if program is not None else []
    sized = ((node, each) for node, formula in required for each in _of_sizes(formula, inputs, found, facts, budget))
    for node, formula in sized:
        if decide(formula, facts).status != "refuted":
            continue
        where = nodes.line_of(node)
        point = failing_point(inputs, formula, facts, budget)
        failure = None if point is None else replay.failure_at(mod, inputs, point, where)
        if point is None or failure is None:
            continue
        decision = Decision(formula, Kind.ASSERTED, outcome=True, where=where, operator=str(node.target))
        sentence = f"{replay.Relation.EAGER_RAISES.value}: {failure}"
        seen.append(
            conceded(decision, found, inputs, budget)
            or Finding(Outcome.RAISES, decision, point, sentence, served=formula)
        )
        facts.learn(formula)
    return seen


def _of_sizes(formula: Formula, inputs: Inputs, found: Exploration, domain: Facts, budget: Budget) -> list[Formula]:
    """Return what a requirement says about declared sizes.

    A requirement about data is reduced to the sizes at which some data meet it.
    """
    declared, trial = frozenset(inputs.domain.symbols), found.main.trial
    if formula.symbols <= declared:
        return [formula]
    if decide(formula, trial.facts, budget).status == "proved":
        return []
    names = declared & frozenset[str]().union(*(each.symbols for each in trial.learned))
    return left_by(trial.facts.assuming(formula), domain, names, budget)
