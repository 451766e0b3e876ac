"""Narrow inferred sizes to a requirement that contradicts no claim, keeps given inputs and fixes no dynamic size.

A claim and a given input always stay in the domain, and a size that must stay dynamic keeps at least two values. The
final requirement is the weakest that fits in a line and can be asserted in a graph.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula, connected
from shapeproof.constraints.meaning.evaluate import Point, holds_at
from shapeproof.constraints.nodes import postorder
from shapeproof.constraints.records.decisions import Decision, Kind
from shapeproof.constraints.records.domain import Role
from shapeproof.constraints.terms import symbol
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.explore.attempts import Attempts
from shapeproof.export.explore.beside_eager.replay import Eager
from shapeproof.export.explore.findings import Exploration, Narrowing, Traced, narrowed
from shapeproof.export.graph.emit import has_graph_form
from shapeproof.export.limits import CHEAP_ELEMENTS, COMPARISONS, TIED_SIZES
from shapeproof.solver.answers.blame import without_needless
from shapeproof.solver.answers.repair import repaired
from shapeproof.solver.answers.simplify import simplified
from shapeproof.solver.answers.witness import find, grant
from shapeproof.solver.clash import clash
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import implied


def narrowing_to(decision: Decision, requirement: Formula, found: Exploration, inputs: Inputs) -> Narrowing | None:
    """Return a narrowing to the requirement, if the decision that asks for it involves inferred sizes."""
    left = narrowed(inputs.facts(), found.narrowings)
    return _granted(Narrowing(requirement, decision), left, anchors_of(found, inputs), inputs)


def asked_for(decisions: Sequence[Decision], inputs: Inputs) -> list[Narrowing]:
    """Return the checks of a trace at the example, as narrowings of inferred sizes where these are allowed.

    A check after a branch of the model applies only on that side of the branch; it is left to the exploration.
    """
    granted, left = list[Narrowing](), inputs.facts()
    for decision in decisions:
        if decision.of_the_model:
            break
        if decision.kind is Kind.ASSERTED and decision.taken.total:
            asked = _granted(Narrowing(decision.taken, decision), left, inputs.anchors, inputs)
            if asked is not None:
                granted.append(asked)
                left.learn(asked.requirement)
    return granted


def _granted(asked: Narrowing, left: Facts, anchors: Sequence[Point], inputs: Inputs) -> Narrowing | None:
    """Return a requirement if it involves inferred sizes, keeps the given inputs and keeps dynamic sizes dynamic.

    `left` is the part of the domain before this narrowing.
    """
    required = asked.requirement
    inferred = asked.decision.formula.symbols & inputs.domain.of_role(Role.INFERRED)
    if not inferred or not all(holds_at(required, each) for each in anchors):
        return None
    return asked if _stays_dynamic(required, left, anchors[0], inputs) else None


def narrowing_for(decision: Decision, found: Exploration, inputs: Inputs) -> Narrowing | None:
    """Return a narrowing to what a decision took, or a raised lower bound under which the decision always holds."""
    return narrowing_to(decision, decision.taken, found, inputs) or raised_bound(decision, inputs)


def anchors_of(found: Exploration, inputs: Inputs) -> list[Point]:
    """Return the points that must stay in the domain: the given inputs, or the traced point if there is no example."""
    points = inputs.anchors or (found.main.trial.point,)
    return [{name: point[name] for name in inputs.domain.symbols} for point in points]


def _stays_dynamic(requirement: Formula, facts: Facts, anchor: Mapping[str, int], inputs: Inputs) -> bool:
    """True if each size that must stay dynamic still has a value other than the anchor's."""
    here = facts.assuming(requirement)
    others = (
        f.ne(symbol(name), anchor[name]) for name in sorted(requirement.symbols & inputs.domain.of_role(Role.DYNAMIC))
    )
    return all(isinstance(find(other, here), dict) for other in others)


def raised_bound(decision: Decision, inputs: Inputs) -> Narrowing | None:
    """Raise the lower bound of a Dim without written bounds to 1 or 2, if the decision then always holds."""
    for name in sorted(decision.formula.symbols & inputs.domain.of_role(Role.LIFTABLE)):
        for bound in (1, 2):
            raised = f.ge(symbol(name), bound)
            if not all(holds_at(raised, anchor) for anchor in inputs.anchors):
                continue
            facts = inputs.facts()
            facts.learn(raised)
            if implied(decision.taken, facts):
                return Narrowing(raised, decision)
    return None


def without_empty(domain: Facts, inputs: Inputs) -> tuple[Facts, list[Narrowing]]:
    """Restrict inferred and liftable sizes to at least 1, for models that torch cannot trace with a size of 0."""
    lifts = [
        Narrowing(above, Decision(above, Kind.ASSUMED, outcome=True))
        for name in sorted(inputs.domain.of_role(Role.INFERRED | Role.LIFTABLE))
        if domain.range_of(name).lower == 0 and all(anchor[name] > 0 for anchor in inputs.anchors)
        for above in [f.ge(symbol(name), 1)]
    ]
    return narrowed(domain, lifts), lifts


def condense_narrowings(found: Exploration, inputs: Inputs) -> list[Narrowing]:
    """Rewrite the narrowings as few simple formulas that together require the same, or hardly more."""
    domain, anchors = inputs.facts(), anchors_of(found, inputs)
    chosen = repaired(
        [narrowing.requirement for narrowing in found.narrowings],
        domain,
        anchors[0],
        others=anchors[1:],
        sayable=lambda formula: sayable(formula) and _stays_dynamic(formula, domain, anchors[0], inputs),
        simple=found.settled_for,
    )
    whole = f.conjunction(*(repair.formula for repair in chosen or ()))
    if chosen is None or not _stays_dynamic(whole, domain, anchors[0], inputs):
        return found.narrowings
    parts, asked = [part for repair in chosen for part in repair.formula.conjuncts], _in_program_order(found)
    for at, part in enumerate(parts):
        if isinstance(part, f.Or):  # later parts may decide some of its cases: `m != 1 or m != b` beside `m == b`
            parts[at] = f.conjunction(*simplified([part], domain.assuming(*parts[:at], *parts[at + 1 :])))
    return [Narrowing(part, _asked_by(part, asked, domain)) for part in parts if part is not f.TRUE]


def sayable(formula: Formula) -> bool:
    """True if a user can read a formula at a glance and a graph can assert it."""
    comparisons = sum(isinstance(node, f.Compare) for node in postorder(formula))
    return comparisons <= COMPARISONS and has_graph_form(formula)


def _asked_by(part: Formula, asked: dict[Formula, Decision], domain: Facts) -> Decision:
    """Return the decision that fixes a part: of the first ones that imply it, the last about its sizes.

    Example: after `if x.shape[0] == 33`, the line `if y.shape[0] == x.shape[0]` fixes `y.shape[0] == 33`.
    """
    if part in asked:
        return asked[part]
    about = connected(part.symbols, [*domain.formulas, part.negation, *asked])
    implying = set(clash(Facts(about, domain.budget)))
    return asked[max(reversed(asked), key=lambda each: (each in implying, bool(each.symbols & part.symbols)))]


def _in_program_order(found: Exploration) -> dict[Formula, Decision]:
    """Return what is required, with the decisions that ask for it: first the program's own, in order, then others."""
    about = {each.decision.formula for each in found.narrowings}
    questions = found.main.trial.questions.asked.values()
    asked = {each.taken: each for each in questions if not about.isdisjoint({each.formula, each.formula.negation})}
    return asked | {each.requirement: each.decision for each in found.narrowings if each.requirement not in asked}


def equal_in_example(inputs: Inputs, example: Mapping[str, int], apart_from: Container[str] = ()) -> Sequence[Formula]:
    """Return the equalities between inferred sizes that hold in the example and in every other given input."""
    first: dict[int, str] = {}
    inferred = inputs.domain.of_role(Role.INFERRED)
    names = [name for name in inputs.domain.symbols if name in inferred and name not in apart_from]
    pairs = ((name, first.setdefault(example[name], name)) for name in names)
    equal = (f.eq(symbol(name), symbol(other)) for name, other in pairs if name != other)
    return [each for each in equal if all(holds_at(each, anchor) for anchor in inputs.anchors)]


def sums_in_example(inputs: Inputs, about: Iterable[frozenset[str]]) -> list[tuple[str, Formula]]:
    """Return the inferred sizes that are the sum of two others, as the example and every other given input say.

    Only sums that involve all of the symbols of one of these sets: by chance, many sizes are sums of others.
    """
    example, inferred = inputs.example or {}, inputs.domain.of_role(Role.INFERRED)
    order = {name: at for at, name in enumerate(name for name in inputs.domain.symbols if name in example)}
    triples = {
        (whole, *sorted((one, other), key=order.__getitem__))
        for symbols in dict.fromkeys(about)
        if len(symbols) <= 3 and symbols <= order.keys()
        for whole, one, other in _sums_of(symbols, {name: example[name] for name in order})
        if whole in inferred and symbols <= {whole, one, other} and min(example[one], example[other]) > 0
    }
    ordered = sorted(triples, key=lambda triple: [order[name] for name in triple])
    sums = ((whole, f.eq(symbol(whole), symbol(one) + symbol(other))) for whole, one, other in ordered)
    return [(whole, equal) for whole, equal in sums if all(holds_at(equal, anchor) for anchor in inputs.anchors)]


def _sums_of(symbols: frozenset[str], sizes: Mapping[str, int]) -> Iterator[tuple[str, str, str]]:
    """Yield each size with two others whose sum it is, where two of them are of the symbols, or one that is alone."""
    at: dict[int, list[str]] = {}
    for name, size in sizes.items():
        at.setdefault(size, []).append(name)
    for one, other in itertools.product(sorted(symbols), sorted(symbols) if len(symbols) > 1 else sizes):
        if one != other:
            yield from ((whole, one, other) for whole in at.get(sizes[one] + sizes[other], ()))
            for whole, part in ((one, other), (other, one)):
                rest = at.get(sizes[whole] - sizes[part], ())
                yield from ((whole, part, each) for each in rest if each != part)


def kept_equal(eager: Eager, found: Exploration, domain: Facts, point: Mapping[str, int]) -> list[Narrowing]:
    """Return the example's equalities that cause a difference at a point; none if they are not the cause.

    Only a run, and no recorded decision, requires them: code that asks whether torch is tracing may skip work in eager
    that the program does. Example: the program indexes a mask that eager drops, past the mask's end if the mask has
    fewer rows than the batch. At the example's equal sizes both do the same. The equality is enforced at run time;
    later replays check that it suffices, as for any other domain.
    """
    inputs = eager.inputs
    broken = [each for each in equal_in_example(inputs, inputs.example or {}) if not holds_at(each, dict(point))]
    if not broken or len(broken) > TIED_SIZES or not _agree(eager, found, domain.assuming(*broken), point):
        return []
    broken = without_needless(
        broken, lambda left, each: bool(left) and _agree(eager, found, domain.assuming(*left, each.negation), point)
    )
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


@dataclass(frozen=True, slots=True)
class Scouted:
    """A trace at the example, what inferred sizes are narrowed to, and a point of that domain which eager accepts."""

    at_example: Traced
    domain: list[Narrowing]
    point: Point
    is_tied: bool
    """True if equalities of the example are among the requirements that no check asks for, but a run does."""


@dataclass(frozen=True, slots=True)
class Scout:
    """Finds a simple domain that a model asks for, from one quick trace at the example made before all others.

    If eager rejects generic sizes, inferred sizes are narrowed to the checks that eager makes at the example's sizes,
    for example `h % 16 == 0` and `a == b`. The main program is then traced inside that domain, where few decisions are
    left open. Requirements that torch does not check while tracing show in a run: the example's equal sizes are kept
    equal where eager rejects unequal ones. The exploration settles every claim afterwards.

    Attributes:
        eager: the model, as eager runs it on the declared inputs.
        attempts: makes the traces.
    """

    eager: Eager
    attempts: Attempts

    def look(self, domain: Facts, example: Point) -> Scouted | None:
        """Return the simple domain that the model asks for; None if eager accepts generic sizes or none is found."""
        if not self.eager.inputs.domain.of_role(Role.INFERRED) or self._runs_in(domain, CHEAP_ELEMENTS):
            return None
        traced = self.attempts.once(domain, example)
        if traced.program is None:
            return None
        asked = asked_for(traced.trial.decisions, self.eager.inputs)
        region = narrowed(domain, asked).assuming(*self._general(traced))
        tied, pinned = self._tied(region, example, self._pinned(traced))
        point = self.attempts.sizes.generic(narrowed(region, [*tied, *pinned]))
        return None if point is None else Scouted(traced, [*asked, *pinned, *tied], point, bool(tied))

    def _pinned(self, traced: Traced) -> list[Formula]:
        """Return equalities that operators took at the example: torch may branch on one that eager requires."""
        found = (step.decision for step in traced.trial.size_steps)
        return [each.taken for each in found if each.pins and not each.of_the_model]

    def _general(self, traced: Traced) -> list[Formula]:
        """Return the decisions of a trace that generic inputs take too, since they are no accidents of its sizes."""
        steps = traced.trial.size_steps
        return [step.decision.taken for step in steps if not step.overrules and not step.decision.pins]

    def _tied(
        self, region: Facts, example: Point, pinned: Sequence[Formula]
    ) -> tuple[list[Narrowing], list[Narrowing]]:
        """Return the equalities of the example that eager needs to accept a generic point; none if all do not suffice.

        Equalities between sizes are tried first, then also equalities with constants.
        """
        if self._runs_in(region):
            return [], []
        # of a size with a single value, it is an accident if another size of the example equals it
        alone = {name for name, bounds in region.ranges.items() if bounds.single is not None}
        open_, every = (
            [each for each in equal_in_example(self.eager.inputs, example, fixed) if self._is_open(each, region)]
            for fixed in (alone, ())
        )
        constant = [each for each in dict.fromkeys(pinned) if self._is_open(each, region)]
        needed = next((each for each in (open_, [*open_, *constant], every) if self._serves(region, each)), [])
        needed = without_needless(needed, lambda left, each: self._runs_in(region.assuming(*left, each.negation)))
        tied, fixed = ([each for each in needed if (each in constant) is chosen] for chosen in (False, True))
        return self._asked(tied), self._asked(fixed)

    def _asked(self, needed: Sequence[Formula]) -> list[Narrowing]:
        decisions = [Decision(each, Kind.ASSERTED, outcome=True) for each in needed]
        return asked_for(decisions, self.eager.inputs)

    def _is_open(self, formula: Formula, region: Facts) -> bool:
        return not region.assuming(formula.negation).contradictory

    def _serves(self, region: Facts, equal: Sequence[Formula]) -> bool:
        return len(equal) <= TIED_SIZES and self._runs_in(region.assuming(*equal))

    def _runs_in(self, region: Facts, elements: int | None = None) -> bool:
        """True if eager accepts a generic point; a point with more than `elements` elements is not run."""
        point = self.attempts.sizes.generic(region)
        if point is None or (elements is not None and self.eager.inputs.elements(point) > elements):
            return False
        return self.eager.failure(point) is None
