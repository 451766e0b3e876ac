"""Runs the program beside eager where the domain ends, before it is called proved.

Tracing cannot see everything (code that asks whether it is being traced, say); a difference shows in a run. The
points are the inputs that were given, the point of each trace that the program serves, the corners of the domain as
far as they fit into memory, one point of each slice of the domain that no trace was made for, and where the model reads
the layout of a tensor, points at which sizes of it are 0 and 1.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import holds_at
from shapeproof.constraints.terms import Term, symbol
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.explore.beside_eager import replay
from shapeproof.export.explore.findings import Exploration
from shapeproof.export.trace.trial import flipped
from shapeproof.solver.answers.witness import find, smallest
from shapeproof.solver.budget import Budget
from shapeproof.solver.facts import Facts

ELEMENTS = 2**13
"""Inputs with more elements than this are not built for a replay, unless the example's are of that size."""
GROWTH = 4
"""How many times as large as the example's the inputs of a replay may be."""
CORNERS = 16
"""How many corners are run at most."""
LAYOUTS = 16
"""At how many points with sizes of 1 a program is run for each tensor whose layout the model reads."""
SEEDS = (None, 1, 2, 3)
"""Of which data are made up, to find out whether eager raises for them all; first the example's own, repeated."""


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A point at which the program does not do what eager does, or both raise where eager should not."""

    point: dict[str, int]
    result: replay.Replay
    bound: Formula | None = None
    """The bound of a size that leaves out sizes at which both raise."""


def disagreement(mod: torch.nn.Module, inputs: Inputs, found: Exploration, domain: Facts) -> Disagreement | None:
    """The first point of a domain at which the program does not do what eager does.

    Where the exploration began, the two have been compared.
    """
    if found.disagreement is not None:
        return Disagreement(found.begun, found.disagreement)
    run = [found.begun]
    raising: list[dict[str, int]] = []
    served = False
    for point in points(inputs, found, domain, run):
        if point in run or not domain.contains(point):
            continue
        run.append(point)
        result = replay.compare(mod, found.forms, inputs, point)
        if not result.agrees:
            return Disagreement(point, result)
        served |= result.relation is replay.Relation.SAME
        if result.relation is replay.Relation.BOTH_RAISE:
            raising.append(point)
    served = served or not raising or replay.eager_failure(mod, inputs, found.begun, SEEDS[0]) is None
    for point in _claimed(raising, inputs, found, domain) if served else ():
        result = replay.compare(mod, found.forms, inputs, point)
        if result.relation is replay.Relation.BOTH_RAISE and raises_whatever_the_data(mod, inputs, found, point):
            return Disagreement(point, result)
    return None


def _claimed(
    raising: Sequence[dict[str, int]], inputs: Inputs, found: Exploration, domain: Facts
) -> Iterator[dict[str, int]]:
    """Points at which both raise, with what may be given up as it was at the beginning, and then not to blame."""
    kept = {name: found.begun[name] for name in inputs.inferred | inputs.liftable}
    for point in raising:
        claimed = point | kept
        if claimed != found.begun and domain.contains(claimed):
            yield claimed


def raises_whatever_the_data(
    mod: torch.nn.Module, inputs: Inputs, found: Exploration, point: Mapping[str, int]
) -> bool:
    """Whether eager raises at a point for all data: there is none, or it is made up of floats, and all that are tried.

    Torch's own error is meant, and not one of the data (LinAlgError), or of the model.
    """
    if found.main.trial.checks:
        return False
    tensors = [leaf.example for leaf in inputs.leaves if leaf.is_tensor]
    empty = inputs.elements(point) == 0
    if not empty and not all(each.dtype.is_floating_point for each in tensors):
        return False
    failures = [replay.eager_failure(mod, inputs, point, seed) for seed in (SEEDS[:1] if empty else SEEDS)]
    return all(said is not None and (empty or said.startswith(("RuntimeError", "IndexError"))) for said in failures)


def failing_point(inputs: Inputs, required: f.Formula, domain: Facts, budget: Budget) -> dict[str, int] | None:
    """The smallest point of a domain where a requirement does not hold."""
    found = smallest(f.negate(required), domain, sorted(inputs.domain.symbols), budget)
    return {name: found[name] for name in inputs.domain.symbols} if isinstance(found, dict) else None


def points(
    inputs: Inputs, found: Exploration, domain: Facts, run: Sequence[Mapping[str, int]]
) -> Iterator[dict[str, int]]:
    """The corners, and a point of each slice whose decision was found to make no difference, unless one was `run`."""
    names = sorted(inputs.domain.symbols)
    for traced in (found.main, *found.served):
        point = {name: traced.trial.point[name] for name in names}
        if fits(inputs, found.begun, point):
            yield point
        elif traced is not found.main:
            yield failing_point(inputs, f.FALSE, traced.trial.region, traced.trial.region.budget) or point
    yield from (anchor for anchor in inputs.anchors if domain.contains(anchor))
    free = _free(names, domain)
    for ends in itertools.islice(itertools.product((False, True), repeat=len(free)), CORNERS):
        corner = _corner(dict(zip(free, ends, strict=True)), found.begun, inputs, domain)
        if corner is not None:
            yield corner
    for small in _where_laid_otherwise(found, domain):
        if fits(inputs, found.begun, small):
            yield {name: small[name] for name in names}
    ones = _of_ones(inputs, found, domain)
    yield from () if ones is None else (ones,)
    given = (f.eq(symbol(name), size) for name in names for size in (0, 1))  # shape functions say the same of all
    for slice_ in dict.fromkeys((*map(flipped, found.main.trial.harmless), *given)):
        if slice_.symbols <= set(names) and not any(holds_at(slice_, point) for point in run):
            inside = find(slice_, domain)
            whole = found.begun | inside if isinstance(inside, dict) else None
            if whole is not None and fits(inputs, found.begun, whole):
                yield {name: whole[name] for name in names}


def _where_laid_otherwise(found: Exploration, domain: Facts) -> Iterator[dict[str, int]]:
    """Points at which sizes are 1 or 0 of a tensor whose layout the model reads.

    A dimension has a stride there that reaches no element: torch's fake kernels may give one that its kernels do not.
    """
    for sizes in found.main.trial.laid:
        varying = [size for size in dict.fromkeys(sizes) if not size.is_constant]
        several = itertools.chain.from_iterable(itertools.combinations(varying, n) for n in range(1, len(varying) + 1))
        ones = (f.conjunction(*(f.eq(size, 1) for size in each)) for each in several)
        for where in (*itertools.islice(ones, LAYOUTS), *(f.eq(size, 0) for size in varying)):
            point = find(where, domain) if where.symbols <= found.begun.keys() else None
            if isinstance(point, dict):
                yield found.begun | point


def _free(names: Sequence[str], domain: Facts) -> list[str]:
    """The sizes that have several values, of those that are known to be equal one."""
    first: dict[object, str] = {}
    for name in names:
        first.setdefault(domain.reduce(symbol(name)), name)
    return [name for value, name in first.items() if not (isinstance(value, Term) and value.is_constant)]


def _of_ones(inputs: Inputs, found: Exploration, domain: Facts) -> dict[str, int] | None:
    """The point at which as many sizes as may be are 1, one after the other."""
    facts = domain.fork()
    for name in sorted(inputs.domain.symbols):
        one = facts.assuming(f.eq(symbol(name), 1))
        facts = facts if one.contradictory else one
    point = find(f.TRUE, facts)
    whole = found.begun | point if isinstance(point, dict) else None
    if whole is None or not fits(inputs, found.begun, whole):
        return None
    return {name: whole[name] for name in inputs.domain.symbols}


def _corner(ends: Mapping[str, bool], begun: Mapping[str, int], inputs: Inputs, domain: Facts) -> dict[str, int] | None:
    """The point with each size at its end, as near to it as the domain and memory allow.

    What the domain says nothing of (an int without bounds) is as it was where the exploration began.
    """
    facts = domain.fork()
    best: dict[str, int] | None = None
    for name, high in ends.items():
        bounds = facts.ranges.get(name)
        if bounds is None:
            continue
        for wanted in _towards(bounds.upper if high else bounds.lower, bounds.lower):
            nearer = facts.fork()
            nearer.learn(f.eq(symbol(name), wanted))
            point = find(f.TRUE, nearer)
            whole = {n: point.get(n, begun[n]) for n in begun} if isinstance(point, dict) else None
            if whole is not None and fits(inputs, begun, whole):
                facts, best = nearer, whole
                break
    return best


def _towards(end: int | None, lower: int | None) -> Iterator[int]:
    """The end itself, then values nearer to the lower bound."""
    value = 64 if end is None else end
    floor = 0 if lower is None else lower
    while value > floor:
        yield value
        value = (value + floor) // 2
    yield floor


def fits(inputs: Inputs, begun: Mapping[str, int], point: Mapping[str, int]) -> bool:
    """Whether the inputs at a point are not much larger than those that were run first."""
    return inputs.elements(point) <= max(ELEMENTS, GROWTH * inputs.elements(begun))
