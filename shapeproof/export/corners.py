"""Runs the program beside eager where the domain ends, before it is called proved.

Tracing cannot see everything (code that asks whether it is being traced, say); a difference shows in a run. The
points are the
example, the point of each trace that the program serves, and the corners of the domain as far as they fit into memory.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.diagnostics import Diagnostic, Note
from shapeproof.constraints.evaluate import evaluate
from shapeproof.constraints.terms import symbol
from shapeproof.export import replay
from shapeproof.export.findings import Exploration, narrowed
from shapeproof.export.inputs import Inputs
from shapeproof.solver.budget import Budget
from shapeproof.solver.facts import Facts
from shapeproof.solver.witness import find

ELEMENTS = 2**19
"""Inputs larger than this are not built for a replay."""
CORNERS = 16
"""How many corners are run at most."""


def disagreements(mod: torch.nn.Module, inputs: Inputs, found: Exploration, budget: Budget) -> list[Diagnostic]:
    """A diagnostic for the first point at which the program does not do what eager does."""
    run = replay.fresh_modules(found.main.program)
    domain = narrowed(Facts(inputs.domain.formulas, budget), found.narrowings)
    for point in dict.fromkeys(tuple(sorted(p.items())) for p in _points(inputs, found, domain, budget)):
        sizes = dict(point)
        result = replay.compare(mod, run, inputs, sizes)
        if not result.agrees:
            return [_diagnostic(sizes, result, inputs)]
    return []


def _points(inputs: Inputs, found: Exploration, domain: Facts, budget: Budget) -> Iterator[dict[str, int]]:
    names = sorted(inputs.domain.symbols)
    if inputs.example is not None:
        yield inputs.example
    for traced in (found.main, *found.served):
        yield {name: traced.trial.point[name] for name in names}
    for ends in itertools.islice(itertools.product((False, True), repeat=len(names)), CORNERS):
        corner = _corner(dict(zip(names, ends, strict=True)), inputs, domain, budget)
        if corner is not None:
            yield corner


def _corner(ends: Mapping[str, bool], inputs: Inputs, domain: Facts, budget: Budget) -> dict[str, int] | None:
    """The point with each size at its end, as near to it as the domain and memory allow."""
    facts = domain.fork()
    for name, high in ends.items():
        bounds = facts.ranges.get(name)
        if bounds is None:
            continue
        end = bounds.upper if high else bounds.lower
        for wanted in _towards(end, bounds.lower):
            trial = facts.fork()
            trial.learn(f.eq(symbol(name), wanted))
            point = find(f.TRUE, trial, budget)
            if isinstance(point, dict) and _elements(inputs, {n: point[n] for n in ends}) <= ELEMENTS:
                facts = trial
                break
    point = find(f.TRUE, facts, budget)
    fits = isinstance(point, dict) and _elements(inputs, point) <= ELEMENTS
    return {name: point[name] for name in ends} if fits and isinstance(point, dict) else None


def _towards(end: int | None, lower: int | None) -> Iterator[int]:
    """The end itself, then values nearer to the lower bound."""
    value = 64 if end is None else end
    floor = 0 if lower is None else lower
    while value > floor:
        yield value
        value = (value + floor) // 2
    yield floor


def _elements(inputs: Inputs, point: Mapping[str, int]) -> int:
    total = 0
    for leaf in inputs.leaves:
        if leaf.is_tensor:
            count = 1
            for term in leaf.terms:
                count *= evaluate(term, point)
            total += count
    return total


def _diagnostic(point: dict[str, int], result: replay.Replay, inputs: Inputs) -> Diagnostic:
    named = {inputs.user_names.get(name, name): value for name, value in point.items()}
    sizes = ", ".join(f"{name} = {value}" for name, value in named.items()) or "the example"
    return Diagnostic(
        id="replay",
        message="the program does not do what eager does, though no size-dependent decision was recorded",
        severity="error",
        notes=(Note("fails at", f"{sizes}   replayed; {result.relation.value}: {result.text}"),),
        witness=named,
    )
