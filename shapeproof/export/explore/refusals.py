"""What eager refuses whatever the data are, and torch leaves to run time: indices out of range, reductions of nothing.

What must hold is read off a traced graph (indices.py, reductions.py); it becomes a finding only where eager is seen to
raise at a point at which it does not hold. Nothing is ever proved here.
"""

from __future__ import annotations

import torch

from shapeproof.constraints.decisions import Decision, Kind
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.explore import indices, reductions, replay
from shapeproof.export.explore.corners import failing
from shapeproof.export.explore.findings import Exploration, Finding, Narrowing, Outcome, narrowed
from shapeproof.export.explore.narrowing import conceded
from shapeproof.export.graph import nodes
from shapeproof.solver.budget import Budget
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import decide


def refusals(
    mod: torch.nn.Module, inputs: Inputs, found: Exploration, domain: Facts, budget: Budget
) -> list[Finding | Narrowing]:
    """What the domain leaves open and eager raises for: refuted, or given up if it is inferred."""
    program, facts = found.main.program, narrowed(domain, found.narrowings)
    seen: list[Finding | Narrowing] = []
    required = [*indices.requirements(program), *reductions.requirements(program)] if program is not None else []
    for node, formula in required:
        if not formula.symbols <= frozenset(inputs.domain.symbols) or decide(formula, facts).status != "refuted":
            continue
        seen_at = failing(mod, inputs, formula, facts, budget)
        if seen_at is None:
            continue
        point, failure = seen_at
        decision = Decision(formula, Kind.ASSERTED, outcome=True, where=nodes.line_of(node), operator=str(node.target))
        sentence = f"{replay.Relation.EAGER_RAISES.value}: {failure}"
        seen.append(
            conceded(decision, found, inputs, budget)
            or Finding(Outcome.RAISES, decision, point, sentence, served=formula)
        )
        facts.learn(formula)
    return seen
