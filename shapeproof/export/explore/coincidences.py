"""What an example says of sizes in general: which of its decisions may be accidents of its sizes.

Nothing is traced here.
"""

from __future__ import annotations

from collections.abc import Mapping

from shapeproof.constraints import formulas as f
from shapeproof.constraints.meaning.evaluate import holds_at
from shapeproof.constraints.records.decisions import Decision
from shapeproof.constraints.terms import Symbol, Term, symbol
from shapeproof.export.trace.trial import Trial
from shapeproof.solver.facts import Facts


def takes(trial: Trial, point: Mapping[str, float]) -> bool:
    """Whether an input of these sizes takes every decision on sizes as the trial did."""
    return all(
        holds_at(decision.taken, point) for decision in trial.decisions if decision.formula.symbols <= point.keys()
    )


def pins(decision: Decision) -> bool:
    """Whether the decision as taken is an equality that may be an accident of the example (`b == 1`, `h == w`)."""
    term = equated(decision)
    return term is not None and all(isinstance(atom, Symbol) for atom in term.children)


def equated(decision: Decision) -> Term | None:
    """What is taken to be 0, if an equality is taken."""
    taken = decision.taken
    return taken.term if isinstance(taken, f.Compare) and taken.op == "==" else None


def alike(region: Facts, example: Mapping[str, int]) -> Facts:
    """The part of a region where sizes are equal that are so in the example: those that belong together, it may be."""
    part, first = region.fork(), dict[int, str]()
    for name, value in example.items():
        part.learn(f.eq(symbol(name), symbol(first.setdefault(value, name))))
    return part
