"""Find the sizes that eager rejects for all data, although no decision of the trace says so.

A requirement comes from three places:

- An operator of the graph, whose check torch leaves to run time: indices out of range, empty reductions.
- The model's checks on data. A check stays in the program, and where it fails the program raises as eager does. Where a
  check always fails, the model does not support the size. The checks bound a size, or the difference of two, by its
  least upper bound wherever all of them hold. Beyond that bound it is proved that no data pass.
- An inferred size that may be 0. `x.max(0)` of an empty tensor raises in eager and in the program, although the trace
  asked no question about the size. A written bound is a claim, and corners.py refutes it; an unwritten bound may rise.

Law: a requirement counts only where eager is seen to raise at a point that violates it. It narrows inferred sizes; if
it cannot, it refutes the claim.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import Point
from shapeproof.constraints.records.decisions import Decision, Kind, SourceLocation
from shapeproof.constraints.records.domain import Role
from shapeproof.constraints.terms import Term, symbol
from shapeproof.export.explore.beside_eager import replay, runner
from shapeproof.export.explore.beside_eager.corners import raises_whatever_the_data
from shapeproof.export.explore.demands.graph_demands import requirements
from shapeproof.export.explore.findings import Cell, Exploration, Finding, Narrowing, Outcome, narrowed
from shapeproof.export.explore.inferred.narrowing import narrowing_for
from shapeproof.export.explore.points import failing_point
from shapeproof.export.graph import nodes
from shapeproof.export.trace.records import DataCheck
from shapeproof.export.trace.trial import Trial
from shapeproof.solver.answers.optimum import tighter
from shapeproof.solver.answers.simplify import in_few_words, simplified
from shapeproof.solver.answers.witness import find
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import decide, implied


def take_preconditions(eager: replay.Eager, found: Exploration, domain: Facts) -> None:
    """Add to an exploration what the domain allows and eager rejects: findings, or narrowings of inferred sizes."""
    beside = _BesideEager(eager, found)
    for rejected in (beside.by_operators, beside.by_checks, beside.where_empty):
        found.take(list(rejected(narrowed(domain, found.narrowings))))


@dataclass(frozen=True, slots=True)
class _BesideEager:
    """Holds requirements against eager; each method takes the domain as it is narrowed so far."""

    eager: replay.Eager
    found: Exploration

    def by_operators(self, facts: Facts) -> Iterator[Finding | Narrowing]:
        """Yield what the operators of the graph require of sizes."""
        demanded = requirements(self.found.main.exported)
        sized = ((node, each) for node, formula in demanded for each in self._of_sizes(formula, facts))
        for node, formula in sized:
            for wanted in (formula, _or_empty(formula)):
                fails = decide(wanted, facts).status == "refuted"
                point = failing_point(self.eager.inputs, wanted, facts) if fails else None
                if point is None:
                    break
                required = _unless_at(point, in_few_words(wanted, facts), facts)
                decision = _asserted(required, nodes.line_of(node), str(node.target))
                rejected = self._rejected(decision, point, f"{runner.Relation.EAGER_RAISES.value}: {{}}")
                if rejected is not None:
                    yield rejected
                    facts.learn(wanted)
                    break

    def by_checks(self, declared: Facts) -> Iterator[Finding | Narrowing]:
        """Yield the sizes at which no data pass the model's checks."""
        trial = self.found.main.trial
        if not trial.learned.checks:
            return
        for required in left_by(trial.facts, declared, self._declared_in(trial)):
            point = failing_point(self.eager.inputs, required, declared)
            if point is None:
                continue
            place = _first_unmet(trial, point).place
            rejected = self._rejected(_asserted(required, place.user, place.operator), point, "{}; no data pass there")
            if rejected is not None:
                yield rejected

    def where_empty(self, domain: Facts) -> Iterator[Narrowing]:
        """Yield the lower bounds to raise from 0 to 1, if eager serves the exploration's first sizes.

        Eager is run with one size at 0 and all others unchanged.
        """
        refused = [
            name for name, point in self._emptied(domain) if raises_whatever_the_data(self.eager, self.found, point)
        ]
        if not refused or self.eager.failure(self.found.start, None) is not None:
            return
        for name in refused:
            raised = narrowing_for(_asserted(f.ge(symbol(name), 1)), self.found, self.eager.inputs)
            if raised is not None:
                yield raised

    def _rejected(self, required: Decision, point: Point, sentence: str) -> Finding | Narrowing | None:
        """Return the consequence of a requirement that fails at a point; None unless eager raises there."""
        failure = self.eager.failure_at(point, required.where)
        if failure is None:
            return None
        narrowing = narrowing_for(required, self.found, self.eager.inputs)
        text = sentence.format(failure)
        return narrowing or Finding(Outcome.RAISES, required, point, text, Cell(outside=required.formula))

    def _of_sizes(self, formula: Formula, domain: Facts) -> list[Formula]:
        """Return what a requirement says about declared sizes.

        A requirement about data is reduced to the sizes at which some data meet it.
        """
        trial = self.found.main.trial
        if formula.symbols <= frozenset(self.eager.inputs.domain.symbols):
            return [formula]
        if implied(formula, trial.facts):
            return []
        return left_by(trial.facts.assuming(formula), domain, self._declared_in(trial))

    def _declared_in(self, trial: Trial) -> frozenset[str]:
        """Return the declared sizes in the promises of operators and the checks on data."""
        return frozenset(self.eager.inputs.domain.symbols) & frozenset().union(
            *(each.symbols for each in trial.learned.formulas)
        )

    def _emptied(self, domain: Facts) -> Iterator[tuple[str, Point]]:
        """Yield each inferred or liftable size that may be 0, and the point at which that size alone is 0."""
        for name in sorted(self.eager.inputs.domain.of_role(Role.INFERRED | Role.LIFTABLE)):
            point = self.found.start | {name: 0}
            if self.found.start[name] > 0 and domain.contains(point):
                yield name, point


def _asserted(formula: Formula, where: SourceLocation | None = None, operator: str | None = None) -> Decision:
    return Decision(formula, Kind.ASSERTED, outcome=True, where=where, operator=operator)


def _or_empty(formula: Formula) -> Formula:
    """Weaken a requirement to sizes that are not 0: `index_add` looks at no index where it has no rows to add to."""
    return f.disjunction(formula, *(f.eq(symbol(name), 0) for name in sorted(formula.symbols)))


def _unless_at(point: Point, required: Formula, facts: Facts) -> Formula:
    """Return a requirement on one size that fails at one value alone as `n != value`, at an end as a bound."""
    for name in required.symbols if len(required.symbols) == 1 else ():
        size, value = symbol(name), point[name]
        other = f.ne(size, value)
        if implied(f.ge(size, value), facts):
            other = f.ge(size, value + 1)
        elif implied(f.le(size, value), facts):
            other = f.le(size, value - 1)
        if implied(required, facts.assuming(other)):
            return other
    return required


def left_by(passing: Facts, declared: Facts, names: Collection[str]) -> list[Formula]:
    """Return what holds for declared sizes wherever some data pass all checks, beyond what the declared domain says.

    The sizes of these names are examined, singly and in pairs, and what bounds one number from data on both sides.
    """
    facts = passing.assuming(*declared.formulas)
    between = [each for each in _without_data(passing, names) if not implied(each, declared)]
    sizes = [symbol(name) for name in sorted(names)]
    ends = [end for size in sizes for end in (size, -size)]
    differences = [one - other for one, other in itertools.permutations(sizes, 2)]
    more = tighter([*ends, *differences], facts, declared.assuming(*between))
    return simplified([*between, *more], declared)


def _without_data(passing: Facts, names: Collection[str]) -> Iterator[Formula]:
    """Yield what holds for sizes of these names by a number from data: `k == u` and `u <= b*s` give `k <= b*s`."""
    about = defaultdict[str, list[f.Compare]](list)
    for each in passing.formulas:
        others = each.symbols.difference(names)
        if isinstance(each, f.Compare) and each.op in {"<=", "=="} and len(others) == 1:
            about[next(iter(others))].append(each)
    for number in sorted(about):
        bounds = dict[bool, list[Term]]({True: [], False: []})
        for each, sign in itertools.product(about[number], (1, -1)):
            end = symbol(number) - sign * each.term
            if end.symbols <= frozenset(names):
                for is_upper in (True, False) if each.op == "==" else (sign > 0,):
                    bounds[is_upper].append(end)
        within = (f.le(lower, upper) for lower in bounds[False] for upper in bounds[True])
        yield from (each for each in within if each.total)


def _first_unmet(trial: Trial, point: Point) -> DataCheck:
    """Return the first check that fails at these sizes for all data that pass the checks before it."""
    facts = trial.known.assuming(*(f.eq(symbol(name), value) for name, value in point.items()))
    checks = {check.formula: check for check in trial.learned.checks}
    for formula in trial.learned.formulas:
        facts.learn(formula)
        if formula in checks and find(f.TRUE, facts) is None:
            return checks[formula]
    return trial.learned.checks[-1]
