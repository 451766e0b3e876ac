"""THE LADDER: does the program serve a cell, where the question that torch asked has the other answer?

Cheap steps come first, and the first that justifies an answer wins. Three steps settle a question where it is asked, in
the room `trace`, so that it has no cell:

    step       it tells if                                            work              where
    known      the facts prove an answer                              the solver's      trace/trial.py
    rejoined   both sides of the model's branch go on alike           reads bytecode    trace/python/rejoining.py
    in place   the operator returns the same under both answers       16 calls of it    trace/calls/settle.py

What is left is a `Case`, and the steps stand below. The first three settle a case for good. What the others find where
sizes are inferred, or a Dim has no lower bound, becomes a narrowing of the domain instead.

    empty      no input lies in the cell                              the solver's
    reported   a branch of the model on data has failed before        none
    excluded   sizes are inferred: eager checks them, or it raises    2 runs of eager
               at two points, or the looks are used up
    spent      no point is found, or no trace is left: undecided      the solver's
    run        program and eager disagree at the smallest point       1 run of both
    rejection  eager raises there; without data, at a generic point   2 runs of eager
    generic    program and eager disagree at a generic point          10 runs of both
    trace      the program traced in the cell is the same: served;    1 trace, 10 runs of both
               or it is another, or the trace raises: a finding

A trace makes decisions, whose cells are settled next. `run`, `rejection` and `generic` do not tell which part of a cell
is served: they are left out where a part may be, and a *look* is taken, by a trace (`Case.closely`).

Each step has the form `(case) -> Settled | None`. What is counted is traces: `TRACE_LIMIT` for an exploration, after
`TRIES` no look at a branch of the model, and for inferred sizes looks at `LARGE_PROGRAM` nodes together, and `TRIES`
more at sizes of 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.records.decisions import Decision, Kind, SourceLocation
from shapeproof.constraints.records.domain import Domain
from shapeproof.constraints.terms import from_poly
from shapeproof.export.explore.attempts import Attempts
from shapeproof.export.explore.beside_eager import runner
from shapeproof.export.explore.beside_eager.replay import Eager
from shapeproof.export.explore.findings import (
    Case,
    Cell,
    Exploration,
    Finding,
    Narrowing,
    Outcome,
    Traced,
    asking,
    attributed,
)
from shapeproof.export.explore.inferred.narrowing import narrowing_to, raised_bound
from shapeproof.export.explore.judge import Judge
from shapeproof.export.limits import CHEAP_ELEMENTS, CORNER_WORK, COSTLY_TRIES, LARGE_PROGRAM, RUNS, TRACE_LIMIT, TRIES
from shapeproof.export.trace.trial import Step, Trial
from shapeproof.plain import Saving, saves_time
from shapeproof.solver.answers.blame import needed, reasons
from shapeproof.solver.answers.witness import find
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import implied


@dataclass(frozen=True, slots=True)
class Settled:
    """What a step has found of a case; a trace is one that the program serves, and None: there is nothing to serve.

    Attributes:
        left: the part of the cell that has to be settled yet.
    """

    told: Finding | Narrowing | Traced | None = None
    left: Facts | None = None


class Ladder(Judge):
    """Settles the cells of a model.

    `splitting`: what one program does not serve goes to another program, instead of narrowing the domain.
    """

    def __init__(self, eager: Eager, attempts: Attempts, *, splitting: bool) -> None:
        super().__init__(eager, attempts)
        self._splitting = splitting
        self._looks = 0
        """The traces so far that looked for the part of a cell that is served."""
        self._ones = 0
        """How many of them were of sizes of 1, beyond those of any size."""
        self._vain = Counter[SourceLocation | None]()
        """How many traces at a line of the model left its question undecided: a list of chunks may have any length."""

    def settle_beyond(self, traced: Traced, found: Exploration) -> None:
        """Settle the cells of every decision of a trace: account for every input that the trace leaves out."""
        main, about_data = found.main, traced.trial.data_steps
        if len({asking(step.decision) for step in about_data}) > _most_traces():
            reason = f"{len(about_data)} questions about data are open, and each would need a trace"
            told = Cell(answers=tuple(step.decision.taken for step in about_data), unbounded=True)
            if traced is not main:  # its whole cell is left out
                known = traced.trial.known
                told = replace(told, outside=self._outside(known, found), answers=_answers(known, main.trial))
            found.add(Finding(Outcome.UNDECIDED, about_data[0].decision, None, reason, told))
            about_data = []
        for step, cell in _cells(traced.trial, about_data):
            if traced is not main or step not in about_data or not found.takes_in(step.decision):
                self.settle(step, cell, found)

    def settle(self, step: Step, cell: Facts, found: Exploration) -> None:
        """Climb the ladder with one cell. What remains open of inferred sizes narrows the domain."""
        data = self._attempts.domain.about_data(step.decision.formula)
        case = Case(step, cell, found, self._outside(cell, found), data)
        for narrowing in found.narrowings:
            cell.learn(narrowing.requirement)
        if self._climb(case, self.empty, self.reported, self.excluded):
            return
        rest, findings, narrowings = cell.fork(), [*found.findings], [*found.narrowings]
        case.point = self._sizes.generic(cell)
        case.closely = self._looks_closely(case)
        quick = () if case.closely or case.data else (self.run, self.rejection, self.generic)
        self._climb(case, self.spent, *quick, self.trace)
        news = [finding for finding in found.findings if finding not in findings]
        instead = (case.whole or raised_bound(step.decision, self._inputs)) if news else None
        if instead is not None and not (self._splitting and all(each.may_be_another for each in news)):
            found.findings, found.narrowings = findings, [*narrowings, instead]
        parts = [] if case.whole is None else _factors(step.flipped)
        if len(parts) > 1 and found.narrowings != narrowings and not any(implied(part, rest) for part in parts):
            found.findings, found.narrowings = findings, narrowings
            for part in parts:
                self.settle(step, rest.assuming(part), found)
                rest.learn(f.negate(part))

    def _climb(self, case: Case, *steps: Callable[[Case], Settled | None]) -> bool:
        """Keep what the first step that tells anything tells; False if none does."""
        settled = next((told for step in steps if (told := step(case)) is not None), None)
        if settled is None:
            return False
        match settled.told:
            case Finding() as finding:
                case.found.add(finding)
            case Narrowing() as narrowing:
                case.found.narrowings.append(narrowing)
            case Traced() as served:
                case.found.served.append(served)
        if settled.left is not None:
            self.settle(case.step, settled.left, case.found)
        return True

    def empty(self, case: Case) -> Settled | None:
        """Settle a cell without inputs."""
        return Settled() if find(f.TRUE, case.cell) is None else None

    def reported(self, case: Case) -> Settled | None:
        """Report a branch of the model on data once, whatever sizes lead to its other side."""
        known = case.found.known_of_data(case.decision)
        return None if known is None else Settled(replace(known, cell=replace(known.cell, outside=case.outside)))

    def excluded(self, case: Case) -> Settled | None:
        """Exclude the whole of an inferred cell, without checking which part of it may be served."""
        case.whole = narrowing_to(case.decision, case.outside, case.found, self._inputs)
        if case.whole is None or not (case.decision.kind is Kind.ASSERTED or self._settles_for(case)):
            return None
        return Settled(case.whole)

    def _settles_for(self, case: Case) -> bool:
        """True if a closer look would be in vain, since eager rejects the cell, or if it would be one too many."""
        if self._splitting:
            return False
        points = self._sizes.smallest(case.cell), self._sizes.generic(case.cell)
        tried = [point for point in points if point is not None]
        if tried and self.is_large(case.found) and all(self._eager.failure(point) is not None for point in tried):
            return True
        over = saves_time(Saving.LOOKS) and self._looks >= _most_looks(case.found) and not self._wants_ones(case)
        case.found.settled_for |= over
        return over

    def _wants_ones(self, case: Case) -> bool:
        """True where all sizes in question are 0 or 1, for some looks more: a batch of one is not to be left out."""
        ones = not case.data and all(case.cell.range_of(name).upper == 1 for name in case.decision.formula.symbols)
        self._ones += ones
        return ones and self._ones <= TRIES

    def spent(self, case: Case) -> Settled | None:
        """Leave a cell undecided for which there is no point, or no trace."""
        reason = f"more than {_most_traces()} traces would be needed"
        if case.point is None:
            reason = "the solver's budget ran out"
        elif self._attempts.made < _most_traces():
            return None
        return self._undecided(case, reason)

    def _undecided(self, case: Case, reason: str) -> Settled:
        main, point = case.found.main.trial, None if case.point is None else self._sizes.of(case.point)
        told = Cell(outside=case.outside, answers=_answers(case.cell, main))
        return Settled(attributed(Finding(Outcome.UNDECIDED, case.decision, point, reason, told), main))

    def run(self, case: Case) -> Settled | None:
        """Run the program at the smallest point; if splitting, also at a generic one.

        While splitting, differing results say more than an error, which exploring the other program shows again.
        """
        points = [self._sizes.smallest(case.cell)]
        points += [self._sizes.of(case.point or {})] if self._splitting else []
        runs = [self.at(case, point) for point in points if point is not None]
        seen = [each for each in runs if each is not None]
        return self._told(min(seen, key=lambda each: each.outcome is not Outcome.DIFFERS, default=None), case)

    def rejection(self, case: Case) -> Settled | None:
        """Report a cell that the model rejects, so that a trace would only raise.

        A trace runs the model at a generic point on tensors without data. If such a run with plain numbers for sizes
        raises there, the trace would raise as well, after many times the work. If eager raises at the cell's smallest
        point, too, that point is the witness, with or without a trace.
        """
        smallest = self._sizes.smallest(case.cell)
        if case.whole is not None or smallest is None or case.point is None or not saves_time(Saving.REJECTIONS):
            return None
        generic = self._sizes.of(case.point)
        if not self._eager.is_quick(smallest) and self._eager.rejection(generic) is None:
            return None
        failure = self._eager.failure_at(smallest, case.decision.where)
        rejection = None if failure is None else self._eager.rejection(generic)
        if failure is None or rejection is None:
            return None
        return self._told(Finding(Outcome.RAISES, case.decision, smallest, failure, by_model=rejection.by_model), case)

    def generic(self, case: Case) -> Settled | None:
        """Run the program at a generic point, where that costs little beside a trace there, which would differ, too."""
        point = self._sizes.cheap(case.cell)
        if point is None or not saves_time(Saving.REJECTIONS) or self.at(case, point) is None:
            return None
        return self._told(self.at_smallest(case, case.cell, [point]), case)

    def trace(self, case: Case) -> Settled | None:
        """Trace the model in the cell, compare the two programs, and settle what the trace leaves out of the cell."""
        found = case.found
        if self._vain[case.decision.where] >= COSTLY_TRIES:
            return self._undecided(case, f"{COSTLY_TRIES} other sizes are undecided at this line")
        self._looks += case.closely
        there = self._attempts.in_part(case.cell, case.point)
        finding = self.of_trace(case, there)
        undecided = finding is not None and finding.outcome is Outcome.UNDECIDED and not self._splitting
        self._vain[case.decision.where] += undecided and case.decision.of_the_model
        if case.closely and finding is not None and (noted := self._noted(finding, case)) is not None:
            return noted
        if finding is None or finding.outcome is Outcome.UNDECIDED or case.closely:
            case.outside = f.disjunction(self._outside(there.trial.known, found), *beyond(there.trial))
            self.settle_beyond(there, found)
        if finding is None:
            return Settled(there)
        narrowing = narrowing_to(case.decision, case.outside, found, self._inputs) if case.closely else None
        return self._told(finding, case) if narrowing is None else Settled(narrowing)

    def _noted(self, finding: Finding, case: Case) -> Settled | None:
        """Narrow an inferred cell to where the sizes that the program notes are right; that part is left."""
        right, cell = finding.cell.noted_where, case.cell
        if finding.outcome is not Outcome.UNDECIDED or not right.symbols <= self._sizes.declared:
            return None
        part = cell.assuming(right)
        if not (isinstance(find(f.TRUE, part), dict) and isinstance(find(f.negate(right), cell), dict)):
            return None
        narrowing = narrowing_to(case.decision, f.disjunction(case.outside, right), case.found, self._inputs)
        return None if narrowing is None else Settled(narrowing, part)

    def _told(self, finding: Finding | None, case: Case) -> Settled | None:
        """Attribute a finding to the question that explains it; what that question does not explain is left."""
        if finding is None:
            return None
        about = replace(finding.cell, asked=case.decision.formula, outside=case.outside)
        finding = attributed(replace(finding, cell=about), case.found.main.trial)
        if case.closely or not finding.is_about_another(case.decision):
            return Settled(finding)
        about = replace(about, outside=f.disjunction(case.outside, finding.requirement))
        return Settled(replace(finding, cell=about), case.cell.assuming(finding.requirement))

    def _looks_closely(self, case: Case) -> bool:
        """True if the program may serve a part of the cell which it is worth a trace to know.

        The part is sought for the user's example, for inferred sizes, and for the model's own branches. These are left
        out after some traces, and in a large model that fails in the cell: at two runs, at one if both raise at the
        other, or by its own check.
        """
        if any(map(case.cell.contains, self._inputs.anchors)):
            return True
        if self._splitting or case.whole is not None:
            return not self._splitting
        own = case.decision.of_the_model and not case.data and self._attempts.made < TRIES
        return own and not (self.is_large(case.found) and (self._fails(case) or self.rejection(case) is not None))

    def _fails(self, case: Case) -> bool:
        smallest, generic = self._sizes.smallest(case.cell), self._sizes.cheap(case.cell)
        if smallest is None or generic is None or self._inputs.elements(smallest) > CHEAP_ELEMENTS:
            return False
        if any(form.work(each) > CORNER_WORK for form in case.found.forms for each in (smallest, generic)):
            return False
        runs = [self.replay(case.found.forms, each) for each in (smallest, generic)]
        wrong = [run for run in runs if not run.agrees]
        return bool(wrong) and all(run in wrong or run.relation is runner.Relation.BOTH_RAISE for run in runs)

    def is_large(self, found: Exploration) -> bool:
        """True if a program is too large to look wherever a look may help."""
        return saves_time(Saving.LOOKS) and _most_looks(found) < RUNS

    def _outside(self, cell: Facts, found: Exploration) -> Formula:
        return _outside(cell, found, self._attempts.domain)


def _most_traces() -> int:
    return TRACE_LIMIT if saves_time(Saving.SETTLING) else TRACE_LIMIT**2


def _most_looks(found: Exploration) -> int:
    """Return how often a part of an inferred cell is sought; for a large program, once."""
    return min(RUNS, max(1, LARGE_PROGRAM // len(found.main.exported.graph.nodes)))


def _cells(trial: Trial, about_data: Sequence[Step]) -> list[tuple[Step, Facts]]:
    """Return what the trace leaves out, cut along the decisions that imply the others.

    Eager's checks come first, so that a cell of torch's assumptions is examined where eager's checks hold; and special
    cases (`n == 1`) come last, where the other assumptions hold. A partial formula keeps its place: an earlier decision
    may be the guard that makes it defined.
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


def _weight(decision: Decision) -> int:
    """Return a weight that prefers the user's own lines, then short formulas."""
    framework = 0 if decision.operator is None else 1000
    return framework + len(str(decision.taken))


def _outside(cell: Facts, found: Exploration, domain: Domain) -> Formula:
    """Return a formula that holds for every accepted input outside a cell; FALSE if no size distinguishes the cell."""
    common = {*domain.formulas, *(each.requirement for each in found.narrowings)}
    return f.disjunction(
        *(f.negate(each) for each in cell.formulas if each not in common and not domain.about_data(each))
    )


def beyond(trial: Trial) -> list[Formula]:
    """Return formulas whose disjunction holds exactly for the inputs of a cell that a trace does not represent."""
    sizes = [step.decision.taken for step in trial.size_steps]
    kept = reasons([(taken, len(str(taken))) for taken in sizes], trial.known)
    return [f.negate(sizes[index]) for index in sorted(kept)]


def _answers(cell: Facts, main: Trial) -> tuple[Formula, ...]:
    """Return an answer about data that the main program takes and no input of the cell gives, if any."""
    known = set(cell.formulas)
    taken = (step.decision.taken for step in main.data_steps)
    return tuple(each for each in taken if f.negate(each) in known)[:1]


def _factors(formula: Formula) -> list[Formula]:
    """Return, for the formula that a product is 0, the formulas that a factor is; nothing for any other formula."""
    match formula:
        case f.Compare("==", term) if len(term.monomials) == 1:
            return [f.eq(from_poly({((atom, 1),): 1}), 0) for atom, _ in term.monomials[0][0]]
    return []
