"""Find the decisions of an example that may be accidents of its sizes."""

from __future__ import annotations

from collections.abc import Mapping

from shapeproof.constraints import formulas as f
from shapeproof.constraints.meaning.evaluate import holds_at
from shapeproof.constraints.records.decisions import Decision
from shapeproof.constraints.terms import Symbol, Term, symbol
from shapeproof.export.trace.trial import Trial
from shapeproof.solver.facts import Facts


def takes(trial: Trial, point: Mapping[str, float]) -> bool:
    """True if an input of these sizes takes every decision on sizes as the trial did."""
    return all(
        holds_at(decision.taken, point) for decision in trial.decisions if decision.formula.symbols <= point.keys()
    )


def pins(decision: Decision) -> bool:
    """True if the decision as taken is an equality that may be an accident of the example (`b == 1`, `h == w`)."""
    term = equated(decision)
    return term is not None and all(isinstance(atom, Symbol) for atom in term.children)


def equated(decision: Decision) -> Term | None:
    """Return the term that equals 0, if the decision takes an equality."""
    taken = decision.taken
    return taken.term if isinstance(taken, f.Compare) and taken.op == "==" else None


def alike(region: Facts, example: Mapping[str, int]) -> Facts:
    """Return the part of a region that keeps the example's equal sizes equal, since these may belong together."""
    first = dict[int, str]()
    return region.assuming(*(f.eq(symbol(n), symbol(first.setdefault(value, n))) for n, value in example.items()))
