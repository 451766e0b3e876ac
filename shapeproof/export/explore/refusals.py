"""What eager refuses whatever the data are, and torch leaves to run time: indices out of range, reductions of nothing.

What must hold is read off a traced graph (indices.py, reductions.py); it becomes a finding only where eager is seen to
raise at a point at which it does not hold. Nothing is ever proved here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import torch

from shapeproof.constraints.decisions import Decision, Kind, SourceLocation
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.explore import indices, reductions, replay
from shapeproof.export.explore.corners import failing
from shapeproof.export.explore.findings import Exploration, Finding, Narrowing, Outcome, narrowed
from shapeproof.export.explore.narrowing import conceded
from shapeproof.export.source.frames import in_torch
from shapeproof.solver.budget import Budget
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import decide

_LINE = re.compile(r'^ *File "(?P<file>.+)", line (?P<line>\d+), in .+\n *(?P<text>.*)$', re.MULTILINE)


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
        decision = Decision(formula, Kind.ASSERTED, outcome=True, where=_place(node), operator=str(node.target))
        sentence = f"{replay.Relation.EAGER_RAISES.value}: {failure}"
        seen.append(
            conceded(decision, found, inputs, budget)
            or Finding(Outcome.RAISES, decision, point, sentence, served=formula)
        )
        facts.learn(formula)
    return seen


def _place(node: torch.fx.Node) -> SourceLocation | None:
    """The user's line, off the stack that torch notes."""
    lines: Sequence[re.Match[str]] = list(_LINE.finditer(node.meta.get("stack_trace") or ""))
    users = [line for line in lines if not in_torch(line["file"])] or lines
    return SourceLocation(users[-1]["file"], int(users[-1]["line"]), users[-1]["text"]) if users else None
