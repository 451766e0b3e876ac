"""Find the sizes that one traced program serves, sizes 0 and 1 included.

A trace represents the inputs that take its decisions. The rest of the domain is cut into *cells*, one for each decision
that the others do not imply. Each cell is traced separately, and the two programs are compared there. The cells of a
cell are settled in turn, until the solver proves that nothing of the domain is left. A cell is

- *served*: the program traced in the cell is the same;
- *narrowed*: the user left its sizes to be inferred, and the cell is excluded with a note and a run-time check;
- a *finding*: eager raises there, or a replay shows other results than the program's, or neither is established.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import Point
from shapeproof.constraints.records.decisions import Decision, Kind
from shapeproof.constraints.records.domain import Domain
from shapeproof.constraints.terms import from_poly
from shapeproof.export.explore.beside_eager import replay, runner
from shapeproof.export.explore.beside_eager.forms import forms_of
from shapeproof.export.explore.demands.data_demands import demands
from shapeproof.export.explore.findings import (
    Cell,
    Exploration,
    Finding,
    Impossible,
    Narrowing,
    Outcome,
    Traced,
    asking,
    attributed,
    narrowed,
)
from shapeproof.export.explore.inferred.narrowing import (
    asked_for,
    condense_narrowings,
    narrowing_to,
    raised_bound,
    sums_in_example,
    without_empty,
)
from shapeproof.export.explore.inferred.scout import Looks, Scout
from shapeproof.export.explore.judge import Judge
from shapeproof.export.explore.main_program import MainProgram, as_trace_of
from shapeproof.export.explore.points import Attempts
from shapeproof.export.limits import CHEAP_ELEMENTS, PLAIN_TRACES, RETRIES, TRACE_LIMIT, TRIES
from shapeproof.export.trace.trial import Step, Trial
from shapeproof.plain import Saving, saves_time
from shapeproof.solver.answers.blame import needed, reasons
from shapeproof.solver.answers.witness import find
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import implied


class Explorer:
    """Traces a model wherever the domain requires it; `trace` and `progress` are those of `Attempts`.

    `splitting`: leave what one program does not serve to another program, instead of narrowing the domain.
    """

    def __init__(
        self,
        eager: replay.Eager,
        trace: Callable[..., torch.export.ExportedProgram],
        progress: Callable[[str], None],
        *,
        splitting: bool = False,
    ) -> None:
        self._eager = eager
        self._inputs = inputs = eager.inputs
        self._splitting = splitting
        self._attempts = attempts = Attempts(inputs, trace, progress)
        self._cut = _Cutter(inputs.domain)
        self._looks = Looks(eager)
        self.judge = Judge(eager, attempts, splitting=splitting)
        self._main = MainProgram(attempts, self.judge, None if splitting else Scout(eager, attempts))

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
        program = best.main.program
        if self._splitting or program is None or not self._looks.are_few(len(program.graph.nodes)):
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
        found = Exploration(main, forms_of(main.program), start)
        found.narrowings, found.settled_for = list(self._main.adopted), self._main.settled_for
        found.disagreement = self.judge.disagreement(found.forms, found.start, calls=2)
        if found.disagreement is None or main.trial.branches_on_data:
            self._settle(main, found)
        if self._eager.missing:
            found.notes.append(NOT_COMPARED.format(self._eager.missing))
        if not self._eager.is_determined(found.forms[0], found.start):
            found.notes.append(UNDETERMINED)
        return found

    def left_under(self, checks: Sequence[Narrowing], found: Exploration) -> list[Finding]:
        """Return what the same program leaves open where all inputs meet these requirements; traces count from 0."""
        self._attempts.made = 0
        under = replace(found, findings=[], narrowings=[*found.narrowings, *checks], served=[])
        self._settle(found.main, under)
        return under.findings

    def leaving(self, point: Point) -> Formula | None:
        """Return a formula for the declared sizes that take another path than this point; None if tracing succeeds."""
        there = self._attempts.at(self._inputs.facts(), point)
        return None if there.program is not None else f.disjunction(*self._cut.beyond(there.trial))

    def _settle(self, traced: Traced, found: Exploration) -> None:
        """Account for every input that the trace's decisions leave out."""
        about_data = traced.trial.data_steps
        if len({asking(step.decision) for step in about_data}) > _most_traces():
            reason = f"{len(about_data)} questions about data are open, and each would need a trace"
            found.add(self._cut.open_answers(about_data[0].decision, reason, traced, found))
            about_data = []
        for step, cell in self._cut.cells(traced.trial, about_data):
            if traced is not found.main or step not in about_data or not found.takes_in(step.decision):
                self._settle_cell(step, cell, found)

    def _settle_cell(self, step: Step, cell: Facts, found: Exploration) -> None:
        """Settle a cell. If that leaves a finding and the cell's sizes are inferred, narrow the domain instead."""
        outside = self._cut.outside(cell, found)
        for narrowing in found.narrowings:
            cell.learn(narrowing.requirement)
        if find(f.TRUE, cell) is None:
            return
        known_of_data = found.known_of_data(step.decision)
        if known_of_data is not None:
            found.add(replace(known_of_data, cell=replace(known_of_data.cell, outside=outside)))
            return
        whole = narrowing_to(step.decision, outside, found, self._inputs)
        if whole is not None and (step.decision.kind is Kind.ASSERTED or self._settles_for(cell, found)):
            found.narrowings.append(whole)
            return
        parts = [] if whole is None else _factors(step.flipped)
        rest = cell.fork()
        before = list(found.findings), list(found.narrowings)
        data = self._inputs.domain.about_data(step.decision.formula)
        given = any(map(cell.contains, self._inputs.anchors))  # the program may serve that part
        known = functools.cache(lambda: None if data or given or whole else self.judge.of_rejection(step, cell))
        own = step.decision.of_the_model and not data and self._attempts.made < TRIES
        worth = whole is not None or (own and not self._is_in_vain(cell, found, known))
        self._look_into(step, cell, outside, found, known, closely=given or (worth and not self._splitting))
        whole = whole or raised_bound(step.decision, self._inputs)
        news = [finding for finding in found.findings if finding not in before[0]]
        if whole is not None and news and not (self._splitting and all(each.may_be_another for each in news)):
            found.findings, found.narrowings = before[0], [*before[1], whole]
        if len(parts) > 1 and found.narrowings != before[1] and not any(implied(part, rest) for part in parts):
            found.findings, found.narrowings = before
            for part in parts:
                self._settle_cell(step, rest.assuming(part), found)
                rest.learn(f.negate(part))

    def _is_in_vain(self, cell: Facts, found: Exploration, known: Callable[[], Finding | None]) -> bool:
        """True if a large model fails at two runs in a cell, or at one if both raise at the other; or is known to."""
        if found.main.program is None or not self._looks.are_few(len(found.main.program.graph.nodes)):
            return False
        points = [self._attempts.sizes.smallest(cell), self._attempts.sizes.cheap(cell)]
        cheap = [each for each in points if each is not None and self._inputs.elements(each) <= CHEAP_ELEMENTS]
        if len(cheap) == len(points):
            runs = [self.judge.replay(found.forms, each) for each in cheap]
            raising = sum(run.relation is runner.Relation.BOTH_RAISE for run in runs)
            if raising < len(runs) and raising + sum(not run.agrees for run in runs) == len(runs):
                return True
        return known() is not None

    def _settles_for(self, cell: Facts, found: Exploration) -> bool:
        """True if the whole of an inferred cell is excluded, without checking which part of it may be served."""
        if self._splitting or found.main.program is None:
            return False
        nodes = len(found.main.program.graph.nodes)
        if self._looks.are_in_vain(nodes, [self._attempts.sizes.smallest(cell), self._attempts.sizes.generic(cell)]):
            return True
        found.settled_for |= self._looks.are_over(nodes)
        return self._looks.are_over(nodes)

    def _keeps_what_is_noted(
        self, finding: Finding, step: Step, cell: Facts, outside: Formula, found: Exploration
    ) -> bool:
        """Narrow an inferred cell to where the sizes that the program notes are right, and settle that part."""
        right = finding.cell.noted_where
        if finding.outcome is not Outcome.UNDECIDED or not right.symbols <= self._attempts.sizes.declared:
            return False
        part = cell.assuming(right)
        if not (isinstance(find(f.TRUE, part), dict) and isinstance(find(f.negate(right), cell), dict)):
            return False
        narrowing = narrowing_to(step.decision, f.disjunction(outside, right), found, self._inputs)
        if narrowing is None:
            return False
        found.narrowings.append(narrowing)
        self._settle_cell(step, part, found)
        return True

    def _spare_for(self, cell: Facts, point: Point) -> Traced | None:
        """Return the trace at the example as one of this cell, if it is; it is changed, so it serves one cell."""
        there = None if self._main.spare is None else as_trace_of(cell, self._main.spare, point)
        if there is not None:
            self._main.spare = None
        return there

    def _look_into(  # noqa: PLR0913
        self,
        step: Step,
        cell: Facts,
        outside: Formula,
        found: Exploration,
        known: Callable[[], Finding | None],
        *,
        closely: bool,
    ) -> None:
        """Judge a cell, traced if no finding is known. Closely: find the part that the program serves, if not all."""
        point = self._attempts.sizes.generic(cell)
        if point is None or self._attempts.made >= _most_traces():
            reason = (
                "the solver's budget ran out" if point is None else f"more than {_most_traces()} traces would be needed"
            )
            told = Cell(outside=outside, answers=self._cut.answers(cell, found.main.trial))
            found.add(Finding(Outcome.UNDECIDED, step.decision, None, reason, told))
            return
        finding = None
        if not closely:
            finding = (
                self.judge.of_runs(step, cell, point, found.forms)
                or known()
                or self.judge.of_generic_run(step, cell, found.forms)
            )
        if finding is None:
            self._looks.taken += closely
            there = self._spare_for(cell, point) or self._attempts.at(cell, point)
            finding = self.judge.of_trace(step, cell, there, found)
            if closely and finding is not None and self._keeps_what_is_noted(finding, step, cell, outside, found):
                return
            if finding is None or finding.outcome is Outcome.UNDECIDED or closely:
                outside = f.disjunction(self._cut.outside(there.trial.known, found), *self._cut.beyond(there.trial))
                self._settle(there, found)
            if finding is None:
                found.served.append(there)
                return
        narrowing = narrowing_to(step.decision, outside, found, self._inputs) if closely else None
        if narrowing is not None:
            found.narrowings.append(narrowing)
            return
        about = replace(finding.cell, asked=step.decision.formula, outside=outside)
        finding = attributed(replace(finding, cell=about), found.main.trial)
        if closely or not finding.is_about_another(step.decision):
            found.add(finding)
            return
        found.add(replace(finding, cell=replace(about, outside=f.disjunction(outside, finding.requirement))))
        cell.learn(finding.requirement)
        self._settle_cell(step, cell, found)


@dataclass(frozen=True, slots=True)
class _Cutter:
    """Cuts the part of a declared domain that a trace leaves out into cells, and describes each cell by formulas.

    Sizes distinguish a cell from the rest of the domain, or else data do: the main program takes an answer about data
    that no input of the cell gives. A program that asserts that answer rejects the cell.
    """

    domain: Domain

    def defining(self, cell: Facts, found: Exploration) -> list[Formula]:
        """Return the facts about sizes that distinguish a cell from the rest of the narrowed domain."""
        common = {*self.domain.formulas, *(each.requirement for each in found.narrowings)}
        return [fact for fact in cell.formulas if fact not in common and not self.domain.about_data(fact)]

    def outside(self, cell: Facts, found: Exploration) -> Formula:
        """Return a formula that holds for every accepted input outside a cell; FALSE if no size distinguishes it."""
        return f.disjunction(*map(f.negate, self.defining(cell, found)))

    def beyond(self, trial: Trial) -> list[Formula]:
        """Return formulas whose disjunction holds exactly for the inputs of a cell that a trace does not represent."""
        sizes = [step.decision.taken for step in trial.size_steps]
        kept = reasons([(taken, len(str(taken))) for taken in sizes], trial.known)
        return [f.negate(sizes[index]) for index in sorted(kept)]

    def answers(self, cell: Facts, main: Trial) -> tuple[Formula, ...]:
        """Return an answer about data that the main program takes and no input of the cell gives, if any."""
        known = set(cell.formulas)
        return tuple(taken for taken in self.data_answers(main) if f.negate(taken) in known)[:1]

    def data_answers(self, main: Trial) -> list[Formula]:
        """Return the answers about data that a program takes."""
        return [step.decision.taken for step in main.data_steps]

    def open_answers(self, decision: Decision, reason: str, traced: Traced, found: Exploration) -> Finding:
        """Return a finding that asserts a trace's answers about data; the sizes that need other answers are unknown.

        For a trace other than the main program's, the finding leaves out its whole cell.
        """
        cell, main = traced.trial.known, found.main
        own = traced is main
        answers = tuple(self.data_answers(main.trial)) if own else self.answers(cell, main.trial)
        outside = f.TRUE if own else self.outside(cell, found)
        return Finding(
            Outcome.UNDECIDED, decision, None, reason, Cell(outside=outside, answers=answers, unbounded=True)
        )

    def cells(self, trial: Trial, about_data: Sequence[Step]) -> list[tuple[Step, Facts]]:
        """Return what the trace leaves out, cut along the decisions that imply the others.

        Eager's checks come first, so that a cell of torch's assumptions is examined where eager's checks hold; and
        special cases (`n == 1`) come last, where the other assumptions hold. A partial formula keeps its place: an
        earlier decision may be the guard that makes it defined.
        """
        sizes = trial.size_steps
        sizes.sort(key=lambda step: step.decision.kind is Kind.ASSUMED or not step.decision.formula.total)
        if all(step.decision.formula.total for step in sizes):
            sizes.sort(key=lambda step: step.decision.kind is Kind.ASSUMED and step.decision.leaves_out_a_case)
        base = trial.known.fork()
        cells = []
        for index in needed([(step.decision.taken, _weight(step.decision)) for step in sizes], base):
            cells.append((sizes[index], base.assuming(sizes[index].flipped)))
            base.learn(sizes[index].decision.taken)
        taken = [step.decision.taken for step in sizes]
        return [*cells, *((step, step.given.assuming(*taken, step.flipped)) for step in about_data)]


def _most_traces() -> int:
    return TRACE_LIMIT if saves_time(Saving.SETTLING) else PLAIN_TRACES


def _factors(formula: Formula) -> list[Formula]:
    """Return, for the formula that a product is 0, the formulas that a factor is; nothing for any other formula."""
    match formula:
        case f.Compare("==", term) if len(term.monomials) == 1:
            return [f.eq(from_poly({((atom, 1),): 1}), 0) for atom, _ in term.monomials[0][0]]
    return []


NOT_COMPARED = "not compared by values: the model holds no data ({})"
UNDETERMINED = (
    "a result holds uninitialized memory, such as `torch.empty` gives: its elements are not determined in eager either"
)


def _weight(decision: Decision) -> int:
    """Return a weight that prefers the user's own lines, then short formulas."""
    framework = 0 if decision.operator is None else 1000
    return framework + len(str(decision.taken))
