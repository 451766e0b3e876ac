"""Find the sizes that one traced program serves, sizes 0 and 1 included.

A trace represents the inputs that take its decisions. The rest of the domain is cut into *cells*, one for each decision
that the others do not imply. Each cell is traced separately, and the two programs are compared there. The cells of a
cell are settled in turn, until the solver proves that nothing of the domain is left. A cell is

- *served*: the program traced in the cell is the same;
- *narrowed*: the user left its sizes to be inferred, and the cell is excluded with a note and a run-time check;
- a *finding*: eager raises there, or a replay shows other results than the program's, or neither is established.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Container, Sequence
from dataclasses import replace

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.records.decisions import Kind
from shapeproof.export.declare.inputs import Inputs
from shapeproof.export.explore.beside_eager import replay
from shapeproof.export.explore.beside_eager.rejected import rejected
from shapeproof.export.explore.cells import Cutter
from shapeproof.export.explore.coincidences import alike, equated, pins, takes
from shapeproof.export.explore.compare import equivalence
from shapeproof.export.explore.compare.metadata import Difference
from shapeproof.export.explore.demands.data_demands import demands
from shapeproof.export.explore.findings import (
    Exploration,
    Finding,
    Impossible,
    Narrowing,
    Outcome,
    Traced,
    asking,
    attributed,
    narrowed,
    open_answers,
)
from shapeproof.export.explore.inferred.as_main import as_main, as_trace_of
from shapeproof.export.explore.inferred.narrowing import condensed, given_up, lifted, nonempty, sayable
from shapeproof.export.explore.inferred.scout import Looks, Scout
from shapeproof.export.explore.points import Sizes
from shapeproof.export.limits import LOOK_TRACES, OBLIVIOUS_ROUNDS, SCOUT_ELEMENTS, SMALL_POINTS, TRACE_LIMIT
from shapeproof.export.source.errors import raised_at_run_time, raised_by_user
from shapeproof.export.trace import tracer
from shapeproof.export.trace.checks import raising
from shapeproof.export.trace.formula_sets import Where
from shapeproof.export.trace.trial import Step, Trial, flipped
from shapeproof.solver.answers.witness import ascending, find
from shapeproof.solver.budget import Budget
from shapeproof.solver.facts import Facts
from shapeproof.wording import with_kind


class Explorer:
    """Traces a model wherever the domain requires it.

    Args:
        mod: the model.
        inputs: the declared inputs.
        trace: traces the model at a trial's point.
        budget: the work that one solver question may cost.
        progress: called with a description of each step.
        splitting: leave what one program does not serve to another program, instead of narrowing the domain.
    """

    def __init__(  # noqa: PLR0913 - what is explored, and how
        self,
        mod: torch.nn.Module,
        inputs: Inputs,
        trace: Callable[..., torch.export.ExportedProgram],
        budget: Budget,
        progress: Callable[[str], None],
        *,
        splitting: bool = False,
    ) -> None:
        self._eager = replay.Eager(mod, inputs)
        self._inputs = inputs
        self._trace = trace
        self._budget = budget
        self._progress = progress
        self._splitting = splitting
        self._sizes = Sizes(inputs)
        self._cut = Cutter(inputs.domain)
        self._traces = 0
        self._looks = Looks(self._eager)
        self._spare: Traced | None = None
        self._oblivious: frozenset[Formula] = frozenset()
        self._observed: dict[str, float] = {}
        self._raising: raising.Raisings = {}
        self._forms: list[replay.Form] = []
        self._scout = Scout(self._eager, self._cut.about_data, budget, self._attempt, self._sizes.generic)
        self._adopted: list[Narrowing] = []
        self._settled_for = False

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
            above, lifts = nonempty(domain, self._inputs)
            if not lifts:
                raise
            best = self._best(above)
            best.narrowings += lifts
        best.traces = self._traces
        best.narrowings = condensed(best, self._inputs, self._budget)
        return best

    def _best(self, domain: Facts) -> Exploration:
        """Return the exploration that leaves out least, trying torch's general path where a point's own path fails."""
        self._oblivious = frozenset()
        best = self._explore(domain)
        checked: set[Formula] = set()
        for _ in range(OBLIVIOUS_ROUNDS):
            wrong = best.wrong_guesses() - self._oblivious
            if not wrong and self._raising.keys() <= checked:
                break
            self._oblivious |= wrong
            checked = set(self._raising)
            again = self._again(domain)
            if again is not None and again.left_out < best.left_out:
                best = again
        return best

    def _again(self, domain: Facts) -> Exploration | None:
        """Explore on torch's general path; None if that rejects the model, the example or (splitting) its point."""
        try:
            again = self._explore(domain)
        except Exception:  # noqa: BLE001 - what serves less has been found already
            return None
        point = again.main.trial.point | ({} if self._splitting else again.begun)
        return again if again.disagreement is None and again.serves(point) else None

    def _explore(self, domain: Facts) -> Exploration:
        main = self._followed(domain)
        self._inputs.demands[:] = demands(self._inputs, main)
        self._forms = replay.forms(main.program)
        found = Exploration(main, self._forms, self._example_in(domain) or self._sizes.of(main.trial.point))
        found.narrowings, found.settled_for = list(self._adopted), self._settled_for
        found.disagreement = self._disagreement(found.begun, calls=2)
        if found.disagreement is None or self._branches_on_data(main):
            self._settle(main, found)
        return found

    def _disagreement(self, point: dict[str, int], *, calls: int = 1) -> replay.Replay | None:
        """Return the replay at a point if the program, in any form, disagrees with eager there."""
        result = self._eager.compare(self._forms, point, calls=calls)
        return None if result.agrees else result

    def left_under(self, checks: Sequence[Narrowing], found: Exploration) -> list[Finding]:
        """Return what the same program leaves open where all inputs meet these requirements; traces count anew."""
        self._forms, self._traces = list(found.forms), 0
        under = replace(found, findings=[], narrowings=[*found.narrowings, *checks], served=[])
        self._settle(found.main, under)
        return under.findings

    # ------------------------------------------------------------------ the main program

    def _choose_main(self, domain: Facts) -> Traced:
        """Return a program that serves the example, traced at a point as generic as possible."""
        example = self._example_in(domain)
        scouted = self._scouted(domain, example)
        if scouted is not None:
            return scouted
        first = self._trace_apart(domain)
        if example is None:
            return first if first.program is not None else self._elsewhere(domain, first)
        if first.program is not None and takes(first.trial, {**self._observed, **example}):
            return first
        second = self._trace_in(domain, example, self._oblivious)
        if second.program is None:
            if second.trial.impossible is not None and first.program is None:
                raise Impossible(second.trial)
            raise second.error or RuntimeError("the model cannot be traced")
        if first.program is not None and self.same(first, second):
            self._spare = None if self._oblivious or self._observed else second
            return first
        return self._generalize(domain, second, [first.trial.point])

    def _scouted(self, domain: Facts, example: dict[str, int] | None) -> Traced | None:
        """Return the main program in the simple domain that the model asks for, if that program serves the example."""
        self._adopt([], settled_for=False)
        if example is None or self._splitting or self._oblivious:
            return None
        seen = self._scout.look(domain, example)
        if seen is None:
            return None
        main = as_main(seen, domain) or self._trace_in(narrowed(domain, seen.domain), seen.point)
        serves = takes(main.trial, {**self._observed, **example}) or self.same(main, seen.at_example)
        if main.program is None or not serves:
            return None
        self._adopt(seen.domain, settled_for=bool(seen.tied))
        return main

    def _adopt(self, narrowings: list[Narrowing], *, settled_for: bool) -> None:
        """Narrow inferred sizes to these requirements before anything is explored."""
        self._adopted, self._settled_for = narrowings, settled_for
        self._cut = replace(self._cut, adopted=tuple(narrowing.requirement for narrowing in narrowings))

    def _trace_apart(self, domain: Facts) -> Traced:
        """Trace at a generic point, where no sizes are equal by chance against torch's general path."""
        point = self._sizes.generic(domain)
        first = self._trace_in(domain, self._example_in(domain) if point is None else point, self._oblivious)
        apart = domain.fork()
        for step in first.trial.steps:
            against = step.fallback is not None and step.decision.outcome != step.fallback
            if against and equated(step.decision) is not None and not self._cut.about_data(step.decision.formula):
                apart.learn(f.negate(step.decision.taken))
        point = self._sizes.generic(apart) if len(apart.formulas) > len(domain.formulas) else None
        other = first if point is None else self._trace_in(domain, point, self._oblivious)
        return first if other.program is None else other

    def _followed(self, domain: Facts) -> Traced:
        """Return the main program; if the program branches on data, it takes the example's side."""
        try:
            main = self._choose_main(domain)
        except Exception:  # torch traces torch.cond only where no size is 0
            if self._observed or not self._observe(domain):
                raise
            return self._choose_main(domain)
        if not self._observed and self._branches_on_data(main) and self._observe(domain):
            return self._choose_main(domain)
        return main

    def _branches_on_data(self, main: Traced) -> bool:
        asked = (step.decision for step in main.trial.steps if self._cut.about_data(step.decision.formula))
        return any(decision.kind is Kind.BRANCH for decision in asked)

    def _observe(self, domain: Facts) -> bool:
        """Record the numbers that the example's data give, to take their side; True if torch determines any number."""
        if self._inputs.example is None:
            return False
        self._traces += 1
        trial = Trial(domain, self._inputs.example, data=self._cut.is_data, raising=self._raising)
        with contextlib.suppress(Exception):
            self._trace(trial, on_data=True)
        self._observed = trial.observed
        return bool(self._observed)

    def _example_in(self, domain: Facts) -> dict[str, int] | None:
        """Return the user's example, if it lies in this part of the domain."""
        example = self._inputs.example
        return example if example is not None and domain.contains(example) else None

    def _generalize(self, domain: Facts, example: Traced, tried: list[dict[str, int]]) -> Traced:
        """Trace at a generic point that takes the example's decisions, except those that pin a size to the example's.

        If that program does not serve the example, trace at a point that keeps the example's equal sizes equal.
        """
        if not any(map(pins, example.trial.decisions)):
            return example
        kept = (each for each in example.trial.decisions if not pins(each) and not self._cut.about_data(each.formula))
        region = domain.assuming(*(decision.taken for decision in kept))
        for cell in (region, alike(region, self._inputs.example or {})):
            point = self._sizes.generic(cell)
            if point is None or point in tried:
                continue
            tried.append(point)
            third = self._trace_in(domain, point, self._oblivious)
            if third.program is not None and (
                takes(third.trial, {**self._observed, **(self._inputs.example or {})}) or self.same(third, example)
            ):
                return third
        return example

    def _elsewhere(self, domain: Facts, failed: Traced) -> Traced:
        """Without an example, trace at another point where the failed checks hold, or else at the smallest point."""
        others = (self._sizes.generic(step.given.assuming(flipped(step))) for step in failed.trial.steps)
        points = [self._sizes.smallest(domain), *others]
        for point in reversed(points):
            other = self._trace_in(domain, point, self._oblivious) if point is not None else failed
            if other.program is not None:
                return other
        raise failed.error or RuntimeError("the model cannot be traced")

    def same(self, program: Traced, there: Traced) -> bool:
        """True if a program serves the region of another trace, also after decomposition."""
        if program.program is None or there.program is None:
            return False
        point = self._sizes.of(there.trial.point)
        alike = equivalence.same(program.program, there.program, there.trial)
        return alike and self._eager.agrees_apart(program.program, point)

    def leaving(self, point: dict[str, int]) -> Formula | None:
        """Return a formula for the declared sizes that take another path than this point; None if tracing succeeds."""
        there = self._trace_in(self._inputs.facts(self._budget), point)
        return None if there.program is not None else f.disjunction(*self._cut.beyond(there.trial))

    # ------------------------------------------------------------------ cells

    def _settle(self, traced: Traced, found: Exploration) -> None:
        """Account for every input that the trace's decisions leave out."""
        about_data = [step for step in traced.trial.steps if self._cut.about_data(step.decision.formula)]
        if len({asking(step.decision) for step in about_data}) > TRACE_LIMIT:
            reason = f"{len(about_data)} questions about data are open, and each would need a trace"
            found.add(open_answers(self._cut, about_data[0].decision, reason, traced, found.main))
            about_data = []
        for step, cell in self._cut.cells(traced.trial, about_data):
            if traced is not found.main or step not in about_data or not found.takes_in(step.decision):
                self._settle_cell(step, cell, found)

    def _settle_cell(self, step: Step, cell: Facts, found: Exploration) -> None:
        """Settle a cell. If that leaves a finding and the cell's sizes are inferred, narrow the domain instead."""
        outside = self._cut.outside(cell)
        for narrowing in found.narrowings:
            cell.learn(narrowing.requirement)
        if find(f.TRUE, cell) is None:
            return
        whole = given_up(step.decision, outside, found, self._inputs, self._budget)
        if whole is not None and (step.decision.kind is Kind.ASSERTED or self._settles_for(cell, found)):
            found.narrowings.append(whole)
            return
        before = list(found.findings), list(found.narrowings)
        data, given = self._cut.about_data(step.decision.formula), any(map(cell.contains, self._inputs.anchors))
        known = None if data or given or whole else rejected(self._eager, self._sizes, step, cell)
        own = step.decision.of_the_model and not data and self._traces < LOOK_TRACES
        worth = whole is not None or (own and not self._is_in_vain(cell, found, known))
        self._look_into(step, cell, outside, found, known, closely=given or (worth and not self._splitting))
        whole = whole or lifted(step.decision, self._inputs, self._budget)
        news = [finding for finding in found.findings if finding not in before[0]]
        if whole is not None and news and not (self._splitting and all(each.may_be_another for each in news)):
            found.findings, found.narrowings = before[0], [*before[1], whole]

    def _is_in_vain(self, cell: Facts, found: Exploration, known: Finding | None) -> bool:
        """True if a cell is known to fail, or fails at two runs, and the model is too large to look closer."""
        if found.main.program is None or not self._looks.are_few(len(found.main.program.graph.nodes)):
            return False
        points = [self._sizes.smallest(cell), self._sizes.generic(cell)] if known is None else []
        cheap = [each for each in points if each is not None and self._inputs.elements(each) <= SCOUT_ELEMENTS]
        return len(cheap) == len(points) and None not in map(self._disagreement, cheap)

    def _settles_for(self, cell: Facts, found: Exploration) -> bool:
        """True if the whole of an inferred cell is excluded, without checking which part of it may be served."""
        if self._splitting or found.main.program is None:
            return False
        nodes = len(found.main.program.graph.nodes)
        if self._looks.are_in_vain(nodes, [self._sizes.smallest(cell), self._sizes.generic(cell)]):
            return True
        found.settled_for |= self._looks.are_over(nodes)
        return self._looks.are_over(nodes)

    def _look_into(  # noqa: PLR0913
        self, step: Step, cell: Facts, outside: Formula, found: Exploration, known: Finding | None, *, closely: bool
    ) -> None:
        """Judge a cell, traced if no finding is known. Closely: find the part that the program serves, if not all."""
        point = self._sizes.generic(cell)
        if point is None or self._traces >= TRACE_LIMIT:
            reason = (
                "the solver's budget ran out" if point is None else f"more than {TRACE_LIMIT} traces would be needed"
            )
            answers = self._cut.answers(cell, found.main.trial)
            found.add(Finding(Outcome.UNDECIDED, step.decision, None, reason, served=outside, answers=answers))
            return
        same_where: Formula = f.FALSE
        finding = None if closely else self._run_in(step, cell, point) or known
        if finding is None:
            self._looks.taken += closely
            there = (self._spare and as_trace_of(cell, self._spare, point)) or self._trace_in(cell, point)
            finding = self._judge(step, cell, there, found.main)
            if finding is None or finding.outcome is Outcome.UNDECIDED or closely:
                beyond = self._cut.beyond(there.trial)
                outside = f.disjunction(self._cut.outside(there.trial.known), *beyond)
                same_where = f.disjunction(*beyond)
                self._settle(there, found)
            if finding is None:
                found.served.append(there)
                return
        narrowing = given_up(step.decision, outside, found, self._inputs, self._budget) if closely else None
        if narrowing is not None:
            found.narrowings.append(narrowing)
            return
        asked = replace(finding, asked=step.decision.formula, served=outside)
        finding = attributed(asked, found.main.trial)
        if finding.decision is step.decision and sayable(f.disjunction(step.decision.taken, same_where)):
            finding = replace(finding, same_where=same_where)
        if closely or not finding.is_about_another(step.decision):
            found.add(finding)
            return
        found.add(replace(finding, served=f.disjunction(outside, finding.requirement)))
        cell.learn(finding.requirement)
        self._settle_cell(step, cell, found)

    def _run_in(self, step: Step, cell: Facts, point: dict[str, int]) -> Finding | None:
        """Run the program at the cell's smallest point before tracing; if splitting, also at `point`.

        While splitting, differing results say more than an error, which exploring the other program shows again.
        """
        if self._cut.about_data(step.decision.formula):
            return None
        first = None
        for each in (self._sizes.smallest(cell), self._sizes.of(point) if self._splitting else None):
            found = None if each is None else self._replayed(step, each)
            if found is not None and found.outcome is Outcome.DIFFERS:
                return found
            first = first or found
        return first

    def _replayed(self, step: Step, point: dict[str, int]) -> Finding | None:
        """Return a finding if eager and the program disagree at a point."""
        wrong = self._disagreement(point)
        if wrong is None:
            return None
        outcome = Outcome.RAISES if wrong.relation is replay.Relation.EAGER_RAISES else Outcome.DIFFERS
        return Finding(outcome, step.decision, point, wrong.sentence)

    def _judge(self, step: Step, cell: Facts, there: Traced, main: Traced) -> Finding | None:
        """Return a finding unless the main program serves the traced part of the cell."""
        if main.program is None:
            raise ValueError("there is no program to judge")
        if there.program is None:
            return self._judge_failure(step, cell, there, main.program)
        difference = equivalence.difference(main.program, there.program, there.trial)
        if difference is None:
            return None
        if self._cut.about_data(step.decision.formula):
            return Finding(Outcome.DATA, step.decision, dict(there.trial.point), difference.text)
        return self._judge_difference(step, there, difference)

    def _judge_failure(
        self, step: Step, cell: Facts, there: Traced, program: torch.export.ExportedProgram
    ) -> Finding | None:
        """Judge a cell in which tracing fails: does eager raise there, and for data, does the program?"""
        text = with_kind(there.error)
        if self._cut.about_data(step.decision.formula):
            again = Trial(cell, there.trial.point, data=self._cut.is_data)
            try:
                tracer.trace(replay.module_of(program), self._inputs, again)
            except Exception as error:  # noqa: BLE001 - it is judged here
                if raised_at_run_time(error) and raised_at_run_time(there.error):
                    return None
            if not there.trial.steps and raised_by_user(there.error):
                domain = self._inputs.facts(self._budget)
                raising.note(self._raising, step, there.trial, domain, text)
            return Finding(Outcome.DATA, step.decision, dict(there.trial.point), text)
        corners = self._sizes.smallest(cell), self._sizes.smallest(there.trial.region)
        for point in (each for each in (*corners, self._sizes.of(there.trial.point)) if each is not None):
            failure = self._eager.failure_at(point, step.decision.where)
            if failure is not None:
                return Finding(Outcome.RAISES, step.decision, point, failure)
        return Finding(
            Outcome.UNDECIDED, step.decision, self._sizes.of(there.trial.point), f"it cannot be traced there: {text}"
        )

    def _judge_difference(self, step: Step, there: Traced, difference: Difference) -> Finding:
        """Judge a cell in which the programs differ: do their results differ at a concrete input?"""
        smallest_first = ascending(there.trial.region, sorted(self._sizes.declared))
        for point in itertools.chain(itertools.islice(smallest_first, SMALL_POINTS), [there.trial.point]):
            finding = self._replayed(step, self._sizes.of(point))
            if finding is not None:
                return finding
        outcome = Outcome.DIFFERS if difference.certain else Outcome.UNDECIDED
        return Finding(outcome, step.decision, self._sizes.of(there.trial.point), difference.text)

    # ------------------------------------------------------------------ points and traces

    def _trace_in(
        self, known: Facts, point: dict[str, int] | None, oblivious: frozenset[Formula] = frozenset()
    ) -> Traced:
        """Trace at a point of a cell, given the facts that define the cell."""
        if point is None:
            message = "no sizes were found that meet all that is declared, nor is it known that there are none"
            raise UsageError(f"{message}: give an example")
        traced = self._attempt(known, point, oblivious)
        if traced.program is None and traced.trial.guessed:  # the model may check a guessed number later
            again = self._attempt(known, point, Where(self._cut.about_data))
            traced = again if again.program is not None else traced
        if traced.doubtful:
            traced = self._attempt(known, point, oblivious, in_place=False)
        return traced

    def _attempt(self, known: Facts, point: dict[str, int], oblivious: Container[Formula] = (), **how: bool) -> Traced:
        self._traces += 1
        self._progress(f"tracing at {self._sizes.describe(point)}")
        trial = Trial(
            known,
            point,
            data=self._cut.is_data,
            oblivious=oblivious,
            observed=self._observed,
            raising=self._raising,
        )
        try:
            return Traced(trial, self._trace(trial, **how))
        except Exception as error:  # noqa: BLE001 - what stopped the trace is judged by whoever asked for it
            return Traced(trial, None, error)
        finally:
            trial.leave()
