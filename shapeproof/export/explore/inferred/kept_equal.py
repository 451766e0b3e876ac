"""Keep inferred sizes equal where only a run, and no recorded decision, requires the example's equality.

Code that asks whether torch is tracing may skip work in eager that the program does. Example: the program indexes a
mask that eager drops, past the mask's end if the mask has fewer rows than the batch. At the example's equal sizes both
do the same. The equality is enforced at run time; later replays check that it suffices, as for any other domain.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import holds_at
from shapeproof.constraints.records.decisions import Decision, Kind
from shapeproof.constraints.records.domain import Role
from shapeproof.constraints.terms import symbol
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.explore.beside_eager.replay import Eager
from shapeproof.export.explore.findings import Exploration, Narrowing
from shapeproof.export.explore.inferred.narrowing import narrowing_to
from shapeproof.export.limits import TIED_SIZES
from shapeproof.solver.answers.witness import find, grant
from shapeproof.solver.facts import Facts


def equal_in_example(inputs: Inputs, example: Mapping[str, int], apart_from: Container[str] = ()) -> Sequence[Formula]:
    """Return the equalities between inferred sizes that hold in the example and in every other given input."""
    first: dict[int, str] = {}
    inferred = inputs.domain.of_role(Role.INFERRED)
    names = [name for name in inputs.domain.symbols if name in inferred and name not in apart_from]
    pairs = ((name, first.setdefault(example[name], name)) for name in names)
    equal = (f.eq(symbol(name), symbol(other)) for name, other in pairs if name != other)
    return [each for each in equal if all(holds_at(each, anchor) for anchor in inputs.anchors)]


def kept_equal(eager: Eager, found: Exploration, domain: Facts, point: Mapping[str, int]) -> list[Narrowing]:
    """Return the example's equalities that cause a difference at a point; none if they are not the cause."""
    inputs = eager.inputs
    broken = [each for each in equal_in_example(inputs, inputs.example or {}) if not holds_at(each, dict(point))]
    if not broken or len(broken) > TIED_SIZES or not _agree(eager, found, domain.assuming(*broken), point):
        return []
    for each in list(broken):
        others = [other for other in broken if other is not each]
        if others and _agree(eager, found, domain.assuming(*others, each.negation), point):
            broken = others
    asked = (narrowing_to(Decision(each, Kind.ASSERTED, outcome=True), each, found, inputs) for each in broken)
    kept = [each for each in asked if each is not None]
    return kept if len(kept) == len(broken) else []


def _agree(eager: Eager, found: Exploration, region: Facts, point: Mapping[str, int]) -> bool:
    """True if program and eager agree at a point of a region that keeps as many of the given sizes as possible."""
    here = region.fork()
    for name, value in sorted(point.items()):
        grant(f.eq(symbol(name), value), here)
    chosen = find(f.TRUE, here)
    if not isinstance(chosen, dict) or not region.contains(whole := {**point, **chosen}):
        return False
    return eager.compare(found.forms, whole).agrees
