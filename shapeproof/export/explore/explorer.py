"""Find the sizes that one traced program serves, sizes 0 and 1 included.

A trace represents the inputs that take its decisions. The rest of the domain is cut into *cells*, one for each decision
that the others do not imply. Each is settled (ladder.py): *served* by the same program; *narrowed*, where the user left
sizes to be inferred, with a note and a run-time check; or a *finding*: eager raises there, a replay shows other results
than the program's, or neither is established.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import Point
from shapeproof.constraints.records.decisions import Decision, Kind
from shapeproof.constraints.records.domain import Role
from shapeproof.export.explore.attempts import Attempts
from shapeproof.export.explore.beside_eager import replay
from shapeproof.export.explore.beside_eager.forms import forms_of
from shapeproof.export.explore.demands.data_demands import demands
from shapeproof.export.explore.findings import (
    Exploration,
    Finding,
    Impossible,
    Narrowing,
    Outcome,
    narrowed,
)
from shapeproof.export.explore.inferred.narrowing import (
    Scout,
    asked_for,
    condense_narrowings,
    sums_in_example,
    without_empty,
)
from shapeproof.export.explore.ladder import Ladder, beyond
from shapeproof.export.explore.main_program import MainProgram
from shapeproof.export.limits import COSTLY_TRIES, RETRIES
from shapeproof.export.trace.trial import Trial
from shapeproof.solver.answers.blame import without_needless
from shapeproof.solver.answers.simplify import simplified
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import implied


class Explorer:
    """Traces a model wherever the domain requires it; `trace` and `progress` are those of `Attempts`.

    `splitting`: leave what one program does not serve to another program, instead of narrowing the domain. `rolling`:
    a loop over a size is recorded by one step.
    """

    def __init__(
        self,
        eager: replay.Eager,
        trace: Callable[..., torch.export.ExportedProgram],
        progress: Callable[[str], None],
        *,
        splitting: bool = False,
        rolling: bool = True,
    ) -> None:
        self._eager = eager
        self._inputs = inputs = eager.inputs
        self._splitting = splitting
        self._attempts = attempts = Attempts(inputs, trace, progress, rolling=rolling)
        self.ladder = Ladder(eager, attempts, splitting=splitting)
        self._main = MainProgram(attempts, self.ladder, None if splitting else Scout(eager, attempts))

    @property
    def rolled(self) -> frozenset[Any]:
        """The functions of which a loop is recorded by one step: file, line and name."""
        return self._attempts.rolled

    @property
    def writes_over(self) -> bool:
        """True if the model ran in another way: one step of a loop, both sides of a branch, rows as one value."""
        return self._attempts.writes_over

    def run(self, domain: Facts) -> Exploration:
        """Explore the whole domain.

        Raises:
            Exception: the model's error, if the model cannot be traced at any point that was tried.
        """
        try:
            best = self._best(domain)
        except Impossible:
            raise
        except Exception:  # torch traces torch.cond only where no size is 0
            above, lifts = without_empty(domain, self._inputs)
            if not lifts:
                raise
            best = self._best(above)
            best.narrowings += lifts
        best = self._related_as_in_the_example(best, domain) or best
        best.traces = self._attempts.made
        best.narrowings = condense_narrowings(best, self._inputs)
        return best

    def _related_as_in_the_example(self, best: Exploration, domain: Facts) -> Exploration | None:
        """Explore where an inferred size is the sum of two others, as in the example, if not all of that is served.

        Example: a mask is as long as what was cached and what is new. None if that is not served, or serves no sizes
        that are left out now: what is asked of other sizes than the sum (`a == b`) would be asked again.
        """
        if not self._inputs.domain.of_role(Role.INFERRED):
            return None
        kept = narrowed(domain, best.narrowings)
        about = [each.requirement.symbols for each in best.narrowings]
        about += [each.requirement.symbols for each in best.findings]
        for name, equal in sums_in_example(self._inputs, about):
            cut = [each for each in best.narrowings if name in each.requirement.symbols <= equal.symbols]
            whole = domain.assuming(equal) if cut or best.findings else domain
            open_ = [each.decision for each in best.findings if each.requirement.symbols <= equal.symbols]
            others = [each.requirement for each in best.narrowings if each not in cut]
            open_ += [each.decision for each in cut if self._may_serve_more(whole.assuming(*others), each)]
            by = [Decision(equal, Kind.ASSERTED, outcome=True, where=each.where) for each in open_[:1]]
            asked = asked_for(by, self._inputs)
            again = self._again(whole, frozenset()) if asked else None
            if again is None or again.findings:
                continue
            served = narrowed(whole, again.narrowings)
            more = best.findings or not all(implied(each.requirement, served) for each in best.narrowings)
            if more and all(implied(each.requirement, kept) for each in again.narrowings):
                again.narrowings[:0] = asked
                return again
        return None

    def _may_serve_more(self, whole: Facts, cut: Narrowing) -> bool:
        """True if a narrowing leaves out sizes of a part, unless eager rejects generic ones that it leaves out.

        A run costs little beside the traces of an exploration. By chance, many sizes of an example are sums of others.
        """
        if implied(cut.requirement, whole):
            return False
        left_out = whole.assuming(cut.requirement.negation)
        point = None if left_out.contradictory else self._attempts.sizes.cheap(left_out)
        return point is None or self._eager.failure(point) is None

    def _best(self, domain: Facts) -> Exploration:
        """Return the exploration that leaves out least, trying torch's general path where a point's own path fails."""
        oblivious = frozenset[Formula]()
        best = self._explore(domain, oblivious)
        checked: set[Formula] = set()
        for _ in range(RETRIES):
            wrong = best.wrong_guesses() - oblivious
            raising = not self._attempts.raising.keys() <= checked
            if not (wrong or raising) or (not raising and self._is_beyond_proof(best, wrong)):
                break
            oblivious |= wrong
            checked = set(self._attempts.raising)
            again = self._again(domain, oblivious)
            if again is not None and again.left_out < best.left_out:
                best = again
        return best

    def _is_beyond_proof(self, best: Exploration, wrong: frozenset[Formula]) -> bool:
        """True if a large model raises where a question before any guess goes the other way, as it would again."""
        if self._splitting or not self.ladder.is_large(best):
            return False
        asked = (step.decision.formula for step in best.main.trial.steps)
        before = set(itertools.takewhile(lambda formula: formula not in wrong, asked))
        return any(each.outcome is Outcome.RAISES and each.cell.asked in before for each in best.findings)

    def _again(self, domain: Facts, oblivious: frozenset[Formula]) -> Exploration | None:
        """Explore on torch's general path; None if that rejects the model, the example or (splitting) its point."""
        try:
            again = self._explore(domain, oblivious)
        except Exception:  # noqa: BLE001 - what serves less has been found already
            return None
        point = again.main.trial.point | ({} if self._splitting else again.start)
        return again if again.disagreement is None and again.serves(point) else None

    def _explore(self, domain: Facts, oblivious: frozenset[Formula]) -> Exploration:
        main = self._main.found(domain, oblivious)
        self._inputs.demands[:] = demands(self._inputs, main)
        start = self._main.example_in(domain) or self._attempts.sizes.of(main.trial.point)
        found = Exploration(main, forms_of(main.exported), start)
        found.narrowings, found.settled_for = [*self._main.adopted], self._main.settled_for
        result = self.ladder.replay(found.forms, found.start, calls=2)
        found.disagreement = None if result.agrees else result
        if found.disagreement is None or main.trial.branches_on_data:
            self.ladder.settle_beyond(main, found)
        if self._eager.missing:
            found.notes.append(NOT_COMPARED.format(self._eager.missing))
        if not self._eager.is_determined(found.forms[0], found.start):
            found.notes.append(UNDETERMINED)
        return found

    def suffice(self, checks: Sequence[Narrowing], found: Exploration) -> bool:
        """True if nothing about data is open where all inputs pass these checks; traces count from 0."""
        known = {each.requirement for each in found.findings if each.outcome is not Outcome.DATA}
        self._attempts.made = 0
        under = replace(found, findings=[], narrowings=[*found.narrowings, *checks], served=[])
        self.ladder.settle_beyond(found.main, under)
        return all(finding.requirement in known for finding in under.findings)

    def leaving(self, point: Point) -> Formula | None:
        """Return a formula for the declared sizes that take another path than this point; None if tracing succeeds."""
        there = self._attempts.at(self._inputs.facts(), point)
        return None if there.program is not None else f.disjunction(*beyond(there.trial))


NOT_COMPARED = "not compared by values: the model holds no data ({})"
UNDETERMINED = (
    "a result holds uninitialized memory, such as `torch.empty` gives: its elements are not determined in eager either"
)


def settled_by_checks(told: Sequence[Finding], found: Exploration, explorer: Explorer) -> list[Finding]:
    """Return the findings, with those about data replaced by one for each check that the model should make.

    Torch guesses an answer about data (`x[:, :m] + y` with `y.shape[1] == m`: the sizes are equal) and the program
    checks the guess at run time. Eager may accept what that check refuses (`m > x.shape[1] == 1`, which broadcasts). A
    model that makes the check itself means the same in both. The findings stay unless the checks ask for less, and an
    exploration of all inputs that pass them leaves nothing about data.
    """
    about_data = [finding for finding in told if finding.outcome is Outcome.DATA]
    checks = _asking_less(about_data, found.main.trial)
    if not 0 < len(checks) <= COSTLY_TRIES or not explorer.suffice(checks, found):
        return list(told)
    checks = without_needless(checks, lambda fewer, _: bool(fewer) and explorer.suffice(fewer, found))
    first = about_data[0]
    stated = [replace(first, decision=each.decision, joint=each.requirement) for each in checks]
    return [*stated, *(finding for finding in told if finding.outcome is not Outcome.DATA)]


def _asking_less(about_data: Sequence[Finding], trial: Trial) -> list[Narrowing]:
    """Return the operators' checks; none if these ask for more, or if they leave a branch of the model open."""
    checks = list(_guessed(trial))
    passing = trial.known.assuming(*(check.requirement for check in checks))
    open_ = [finding for finding in about_data if not implied(finding.requirement, passing)]
    return checks if open_ and not any(finding.decision.of_the_model for finding in open_) else []


def _guessed(trial: Trial) -> Iterator[Narrowing]:
    """Yield the checks on data that operators make, simplified by what is known where they are made."""
    for check in trial.learned.checks:
        here = check.place
        if here.operator is None or check.inside:
            continue
        parts = simplified([check.formula], trial.facts_before(check.formula))
        decision = Decision(check.formula, Kind.ASSERTED, True, here.user, here.operator, here.framework)  # noqa: FBT003
        yield Narrowing(f.conjunction(*parts), decision)
