"""Name the whole condition under which a finding holds, and its smallest witness, before they are reported.

A decision is asked on one path: a check's requirement may matter only where other sizes send the model that way, and
`n == 5` may stand for the region `5 <= n <= 7` of one program. The reported condition is then the joint one. Eager is
run at other sizes to test it; if eager accepts some sizes at which it should raise, the finding says so. The verdict
stays the same.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import Point, defined
from shapeproof.constraints.records.decisions import Decision, Kind
from shapeproof.export.explore.beside_eager.replay import Eager
from shapeproof.export.explore.beside_eager.runner import Relation
from shapeproof.export.explore.findings import Exploration, Finding, Outcome
from shapeproof.export.explore.inferred.narrowing import sayable
from shapeproof.export.explore.points import Fitting, spread
from shapeproof.export.limits import EXTENT_POINTS, LARGE_PROGRAM, TRIES
from shapeproof.solver.answers.blame import without_needless
from shapeproof.solver.answers.simplify import simplified
from shapeproof.solver.answers.witness import ascending, grant
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import implied

_EACH = 4
"""Of the points, each fourth is run where a failure does not depend on the path."""


_NUMBER = re.compile(r"\d+")
"""What may differ between two texts of one error."""


@dataclass(slots=True)
class Extent:
    """Runs eager, and the program beside it, at sizes that are not much larger than the exploration's first sizes.

    `leaving` returns a formula for the sizes that take another path than a point on which the model raises, if known.
    """

    eager: Eager
    found: Exploration
    domain: Facts
    leaving: Callable[[Point], Formula | None]
    known: dict[int, tuple[Finding, Finding]] = field(default_factory=dict)
    """Findings by their ids, each with what it was named."""
    run: int = 0
    """The nodes of the program in all runs so far; beyond the limit, findings keep the condition they have."""

    def named(self, finding: Finding) -> Finding:
        """Return the finding with the whole condition of it, if that is more than its decision."""
        if id(finding) not in self.known:
            self.known[id(finding)] = finding, self._named(finding)
        return self.known[id(finding)][1]

    def _named(self, finding: Finding) -> Finding:
        if finding.outcome is Outcome.RAISES:
            return self._of_raising(finding)
        return self._of_differing(finding) if finding.outcome is Outcome.DIFFERS else finding

    def _of_raising(self, finding: Finding) -> Finding:
        """Name a condition under which eager raised wherever it was run, and the smallest sizes that raise for it."""
        failure = functools.partial(self.eager.failure_at, where=finding.decision.where)
        alone = self._first(finding, failure, finding.requirement)
        if _NUMBER.sub("", alone.text) != _NUMBER.sub("", finding.text):
            finding = alone
        if self._raises_without(finding.requirement, finding, 1 if self._on_one_path(finding.decision) else _EACH):
            return finding
        for whole in self._wholes(finding):
            joint = self._simple(whole)
            if joint is not finding.requirement and sayable(joint) and self._raises_without(joint, finding):
                placed = self._placed(replace(finding, joint=self._without_chance(joint, finding)))
                if placed is not None:
                    failure = functools.partial(self.eager.failure_at, where=placed.decision.where)
                    return self._first(placed, failure, placed.requirement)
        return replace(finding, partly=True)

    def _placed(self, finding: Finding) -> Finding | None:
        """Place a finding at the first question that its requirement follows from, if its own is about other sizes.

        Return None if there is no such question, or it has a finding: no line is blamed for what it does not ask.
        """
        required = finding.requirement
        if required.symbols & finding.decision.formula.symbols:
            return finding
        asked = (each for each in self.found.main.trial.decisions if each.formula.symbols & required.symbols)
        own = next((each for each in asked if implied(required, self.domain.assuming(each.taken))), None)
        known = own is not None and any(each.decision.taken is own.taken for each in self.found.findings)
        return None if own is None or known else replace(finding, decision=own)

    def _of_differing(self, finding: Finding) -> Finding:
        """Name the region that the program serves, which may be larger than the decision says, in few words."""
        required = f.conjunction(defined(finding.requirement), finding.requirement)
        alone, joint = self._simple(required), self._simple(f.disjunction(required, finding.cell.outside))
        more = f.conjunction(joint, f.negate(alone))
        told = joint is not alone and sayable(joint) and not implied(more.negation, self._without_errors(finding))
        wider = told and self._everywhere(self._alone(finding, more), self._is_served)
        whole = joint if wider else alone
        if whole is not finding.requirement and sayable(whole):
            finding = replace(finding, joint=whole)
        return self._first(finding, self._difference, f.disjunction(required, finding.cell.outside))

    def _simple(self, formula: Formula) -> Formula:
        return f.conjunction(*simplified([formula], self.domain))

    def _alone(self, finding: Finding, where: Formula) -> Facts:
        """Return where a formula holds and eager does not raise for other findings, as far as possible."""
        here = self.domain.assuming(where)
        for other in self.found.findings:
            if other.outcome is Outcome.RAISES and other.decision is not finding.decision:
                grant(other.requirement, here)
        return here

    def _without_errors(self, finding: Finding) -> Facts:
        """Return where no other finding raises: a region that ends where eager raises is served no further."""
        others = (each for each in self.found.findings if each.decision is not finding.decision)
        return self.domain.assuming(*(each.requirement for each in others if each.outcome is Outcome.RAISES))

    def _without_chance(self, required: Formula, finding: Finding) -> Formula:
        """Drop the alternatives at which eager raises, too: the failing path asked about them without need."""
        parts = required.args if isinstance(required, f.Or) else [required]

        def suffice(left: list[Formula], part: Formula) -> bool:
            beside = f.conjunction(part, f.disjunction(*left).negation)
            return bool(left) and self._raises_where(beside, finding)

        return f.disjunction(*without_needless(parts, suffice))

    def _first(self, finding: Finding, seen: Callable[[Point], str | None], holding: Formula) -> Finding:
        """Return the finding with the smallest sizes at which it is seen as witness, where a formula does not hold.

        A question that is asked on one side of a branch may be seen at none of the first sizes, but on its path.
        """
        names = sorted(self.eager.inputs.domain.symbols)
        path = [each.taken for each in self._asked_before(finding.decision)]
        for where in dict.fromkeys((holding.negation, f.conjunction(holding.negation, *path))):
            for point in itertools.islice(ascending(self._alone(finding, where), names), TRIES):
                if point == finding.witness:
                    return finding
                text = seen(point)
                if text is not None:
                    return replace(finding, witness=point, text=text)
        return finding

    def _is_served(self, point: Point) -> bool:
        result = self.eager.compare(self.found.forms, point)
        return result.agrees and not result.is_faint

    def _difference(self, point: Point) -> str | None:
        result = self.eager.compare(self.found.forms, point)
        return None if result.agrees or result.relation is Relation.EAGER_RAISES else result.sentence

    def _wholes(self, finding: Finding) -> Iterator[Formula]:
        """Yield the conditions that may replace a finding's requirement.

        First: the requirement holds, or the sizes lie outside the finding's region. Then: the sizes leave the failing
        path.
        """
        yield f.disjunction(finding.requirement, finding.cell.outside)
        if finding.witness is not None and self._spend(2 * EXTENT_POINTS):
            left = self.leaving(finding.witness)
            if left is not None:
                yield left

    def _on_one_path(self, decision: Decision) -> bool:
        """True if a decision is asked on one path, as far as is known; false of a check that only checks precede."""
        trial = self.found.main.trial
        asked = [*self._asked_before(decision), decision]
        is_of_main = len(asked) <= len(trial.decisions)
        learned = set(trial.facts_before(decision.formula).formulas).difference(trial.known.formulas)
        checks = {each.taken for each in asked if each.kind is Kind.ASSERTED}
        return not (is_of_main and checks.issuperset(learned) and checks.issuperset(each.taken for each in asked))

    def _asked_before(self, decision: Decision) -> Iterator[Decision]:
        return itertools.takewhile(lambda each: each.taken is not decision.taken, self.found.main.trial.decisions)

    def _raises_without(self, required: Formula, finding: Finding, each: int = 1) -> bool:
        """True if eager raised wherever it was run: at points where the requirement fails or is undefined."""
        return self._raises_where(f.negate(f.conjunction(defined(required), required)), finding, each)

    def _raises_where(self, where: Formula, finding: Finding, each: int = 1) -> bool:
        """True if eager raised wherever it was run: at points of a formula."""
        return self._everywhere(self._alone(finding, where), lambda point: self.eager.failure(point) is not None, each)

    def _everywhere(self, region: Facts, seen: Callable[[Point], bool], each: int = 1) -> bool:
        """True if there are points of a region at which the model was run, and this was seen at all of them."""
        fitting = Fitting(self.eager.inputs, self.found.start)
        points = spread(region, fitting.names)
        near = fitting.among(itertools.islice(points, 0, EXTENT_POINTS, each))
        first = next(near, None)
        chosen = () if first is None else itertools.chain([first], near)
        return first is not None and all(self._spend() and seen(point) for point in chosen)

    def _spend(self, runs: int = 1) -> bool:
        """Count as many more runs of the program; False, and nothing is counted, if they may not be made."""
        more = runs * len(self.found.main.exported.graph.nodes)
        if self.run + more > EXTENT_POINTS * LARGE_PROGRAM:
            return False
        self.run += more
        return True
