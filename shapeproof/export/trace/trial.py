"""One trace of the model: its facts, the questions to it, and its answers.

A trial walks the model once at a *point* (one value per symbol; torch: hints). Every question of torch about sizes
arrives as a formula. If the formula or its negation follows from what is known, the question is answered and not
recorded. Every other question is a *decision* (a guard): it is answered as the point says, and recorded together with
the region just before it.

Laws:
- `facts` hold wherever the trial's program is entered: the domain, the promises of operators, the checks that eager
  executes.
- `region` is `facts` and every decision as taken (the path condition). An answer drawn from `region` follows from
  recorded decisions, so it is valid for exactly the inputs that take these decisions, and is claimed for no others.
- `facts` and `region` are replaced, never changed. A decision may be forgotten: who kept a region that has learned it
  would go on taking it for a fact.
- `questions.asked` holds every question that the facts alone do not answer, including questions that earlier decisions
  answer. The reason for a difference is sought there, since the user's `if b == 1` often comes after torch has assumed
  `b != 1`.
- the point (data_point.py) satisfies `region` at all times, for every symbol that has a value in the point.

This module knows neither torch nor sympy, and does not interpret decisions for the user.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from shapeproof.constraints.formulas import FALSE, Formula, conjunction, negate
from shapeproof.constraints.meaning.evaluate import evaluate_number, holds, holds_at
from shapeproof.constraints.reals import Real
from shapeproof.constraints.records.decisions import Decision, Kind
from shapeproof.constraints.terms import Term
from shapeproof.export.limits import ROUNDS
from shapeproof.export.source.frames import Place
from shapeproof.export.trace.data_point import DataPoint
from shapeproof.export.trace.records import DataCheck, Layouts, Learned, Questions, Shared
from shapeproof.plain import Saving, saves_time
from shapeproof.solver.answers.wording import has_value
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import implied, truth

if TYPE_CHECKING:
    from shapeproof.export.trace.checks.raising import Raisings


@dataclass(frozen=True, slots=True)
class Step:
    """A decision and the region just before it; another trace begins where `given` holds and `taken` fails."""

    decision: Decision
    given: Facts
    fallback: bool | None = None
    teaches: bool = True
    """True if the region contains the answer; False if the answer is torch's fallback, whatever the point says."""

    @property
    def flipped(self) -> Formula:
        """The formula of the inputs that leave the trial at this step."""
        return negate(self.decision.taken)

    @property
    def overrules(self) -> bool:
        """True if torch has a fallback for the question and the trace took the other answer."""
        return self.fallback is not None and self.decision.outcome != self.fallback

    @property
    def beyond(self) -> Facts:
        """What holds of the inputs that leave the trial at this step."""
        return self.given.assuming(self.flipped)


class Trial:
    """What one trace knew, was asked and answered.

    Args:
        known: the declared domain (or a region of it) as facts.
        point: a value for every symbol of the inputs; values of data-dependent symbols may be missing.
        data: True for a symbol of data (unbacked), False for a symbol of an input's size.
        oblivious: questions that torch's fallback answers, whatever the point says; they add nothing to the region.
        observed: numbers from the example's data; the point takes them where they are possible.
        raising: exceptions of the model on the other side of a branch on data; such a branch is a check.
        in_place: True if operators may settle their decisions where they make them (settle.py).
    """

    is_taken_apart = False
    """True if the trace is over and the program is being decomposed."""
    padded = False
    """True if an amount gave way to one that is right where the model neither pads nor crops (padding.py)."""
    differentiates = False
    """True if the model may take gradients, or transform functions in a way that torch cannot follow from above."""
    is_over = False
    """True if the trace is over and consumers ask about the whole program."""

    def __init__(  # noqa: PLR0913 - what may be taught beforehand is given by name
        self,
        known: Facts,
        point: Mapping[str, int],
        *,
        data: Callable[[str], bool],
        oblivious: Container[Formula] = frozenset(),
        observed: Mapping[str, float] | None = None,
        raising: Raisings | None = None,
        in_place: bool = True,
    ) -> None:
        self.known = known
        self.in_place = in_place
        self.facts = known.fork()
        self.region = known.fork()
        self.data_point = DataPoint(point, observed or {}, data)
        self.steps: list[Step] = []
        self.harmless: list[Step] = []
        """Decisions that made no difference where they were made, and were forgotten."""
        self.questions = Questions()
        self.learned = Learned()
        self.layouts = Layouts()
        self.shared = Shared()
        self.overwrites = False
        """True if the program writes a buffer of which it has taken the number for a size."""
        self.shows_rounding = False
        """True if an operator may show where the program equals eager only up to rounding."""
        self.kept: set[str] = set()
        """The functions of torch that are kept although they take no symbolic size."""
        self.loops: set[Hashable] = set()
        """The functions with a loop over a symbolic size, which was run step by step."""
        self.parts: Callable[[Any], Any] | None = None
        """Returns the rows of a tensor as one value, which is joined again and nothing else; None if they are rows."""
        self.parted = False
        """True if a tensor of a symbolic number of rows was taken apart."""
        self.branches: set[Hashable] = set()
        """The functions with a branch of which both sides may be computed."""
        self.raising: Raisings = dict(raising or {})
        self.memo: dict[Hashable, Any] = {}
        """What was found in this region about calls of operators: their results, and which decisions are harmless."""
        self._outside: tuple[Facts, Facts, int, int, list[Formula]] | None = None
        self._oblivious = oblivious
        self.is_unfit = False
        """True if a check failed because no data pass it at the point's sizes, though some may at other sizes."""

    @property
    def point(self) -> dict[str, int]:
        """The values at which questions are answered that nothing else answers."""
        return self.data_point.values

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """The recorded decisions, in program order."""
        return tuple(step.decision for step in self.steps)

    def unchecked(self) -> Facts:
        """Return what holds along the trace whether or not its own checks on data pass."""
        taken = (step.decision.taken for step in self.steps if step.teaches)
        return self.known.assuming(*self.learned.promised, *taken)

    @property
    def size_steps(self) -> list[Step]:
        """The recorded decisions about the inputs' sizes."""
        return [step for step in self.steps if not self.about_data(step.decision.formula)]

    @property
    def data_steps(self) -> list[Step]:
        """The recorded decisions about data."""
        return [step for step in self.steps if self.about_data(step.decision.formula)]

    def of_kind(self, kind: Kind) -> list[Step]:
        """Return the decisions of a kind, those without effect last."""
        return [step for step in (*self.steps, *self.harmless) if step.decision.kind is kind]

    @property
    def ignores_layouts(self) -> bool:
        """True if a tensor may have another layout in eager, or share its storage there, without any effect so far."""
        return self.layouts.by_rules or any(step.decision.operator is not None for step in self.harmless)

    @property
    def guessed(self) -> bool:
        """True if torch's fallback answered a question about data, because there was no number to go by."""
        return any(step.teaches and step.fallback == step.decision.outcome for step in self.data_steps)

    def about_data(self, formula: Formula) -> bool:
        """True if the formula is about data, and not about the inputs' sizes alone."""
        return any(map(self.data_point.is_data, formula.symbols))

    @property
    def branches_on_data(self) -> bool:
        """True if a branch of the model took a side that only data determine."""
        return any(step.decision.kind is Kind.BRANCH for step in self.data_steps)

    def takes(self, point: Mapping[str, float]) -> bool:
        """True if an input of these sizes takes every decision on sizes as the trial did."""
        return all(holds_at(each.taken, point) for each in self.decisions if each.formula.symbols <= point.keys())

    def settled(self, formula: Formula, facts: Facts | None = None) -> bool | None:
        """Return the formula's truth if it is proved to be the same wherever facts (the region) hold, else None."""
        told = self._declared_to_be(formula)
        return truth(formula, facts or self.region).always if told is None else told

    def _declared_to_be(self, formula: Formula) -> bool | None:
        """Return the formula's truth if the declared domain is asked first and tells it, else None."""
        declared = self.shared.declared if saves_time(Saving.ANSWERS) else None
        known = declared is not None and formula.symbols <= declared.history.symbols
        return truth(formula, declared).always if declared is not None and known else None

    def choose(
        self,
        formula: Formula,
        kind: Kind,
        place: Callable[[], Place],
        *,
        fallback: bool | None = None,
        apart: Callable[[bool], Formula | None] | None = None,
    ) -> bool:
        """Answer a question that decides which program is traced.

        `apart`: returns where the model goes on in another way on the other side, given the side that is traced; None
        if that is not known.

        Raises:
            RecursionError: a loop asks the same question over and over.
            UsageError: the trace is over, and the program cannot be decomposed correctly.
        """
        if kind is Kind.BRANCH and self.about_data(formula):
            self.questions.rounds[formula] += 1
            if self.questions.rounds[formula] > ROUNDS:
                raise RecursionError(f"a loop has no end: it has asked one question about data {ROUNDS} times")
        answer = self.settled(formula)
        if answer is None and fallback is None:
            known = self._known_elsewhere(formula, place)
            if known is not None:
                return known
        if answer is None and fallback is not None and self._is_unlearned(formula, fallback=fallback):
            decision = _decision(formula, kind, place(), outcome=fallback)
            if all(step.teaches or step.decision.formula is not formula for step in self.steps):
                self.steps.append(Step(decision, self.region.fork(), fallback, teaches=False))
            return fallback
        if answer is None:
            answer = self._side(formula, fallback=fallback)
            rejoins = apart is not None and self._rejoins_but(formula, kind, place, apart, outcome=answer)
            self._record(formula, kind, place, outcome=answer, fallback=fallback)
            if rejoins:
                self.forget(len(self.steps) - 1, (0,), len(self.learned.formulas))
        else:
            self._answered(formula, kind, place, outcome=answer)
            if fallback not in {None, answer} and formula not in self.questions.against:
                self.questions.against[formula] = _decision(formula, kind, place(), outcome=answer)
            self._note(formula, kind, place, outcome=answer)
        return answer

    def _is_unlearned(self, formula: Formula, *, fallback: bool) -> bool:
        """True if torch's fallback answers a question, and the region does not learn the answer.

        A learned answer may make the program less general, so where no answer is forgotten (settle.py), one that is the
        fallback's is not learned. Example: `(x * m)[:2]` has `min(n, 2)` rows, and 2 where `n != 1` was learned.
        """
        if formula in self._oblivious:
            return True
        return not saves_time(Saving.SETTLING) and self._side(formula, fallback=fallback) is fallback

    def _rejoins_but(
        self,
        formula: Formula,
        kind: Kind,
        place: Callable[[], Place],
        apart: Callable[[bool], Formula | None],
        *,
        outcome: bool,
    ) -> bool:
        """True if the other side of a branch goes on as this one but where `apart` says; there a decision is recorded.

        The region keeps that decision, and the branch itself may be forgotten.
        """
        if kind is not Kind.BRANCH or not self.in_place or self.about_data(formula):
            return False
        where = apart(outcome)
        if where is None or where is FALSE:
            return where is FALSE
        other = conjunction(formula.negation if outcome else formula, where)
        known = other.symbols <= self.point.keys() and not self.about_data(other)
        if not known or not other.total or holds(other, self.point):
            return False
        if self.settled(other) is None:
            self._record(other, kind, place, outcome=False)
        return True

    def value(self, number: Term | Real, place: Callable[[], Place]) -> float:
        """Return a number's value on the region; record a specialization to the point's value if it has several.

        Raises:
            UsageError: the trace is over, so a specialization can no longer be recorded.
        """
        self.data_point.complete(number.symbols, self.region)
        value = evaluate_number(number, self.point)
        self._must_be_open(number, value, place)
        self.choose(has_value(number, value), Kind.BRANCH, place)
        return value

    def check(self, formula: Formula, place: Callable[[], Place], message: Callable[[], str] = str) -> bool:
        """Answer a check that eager makes, too. False means that eager raises here.

        A check on data stays in the program, so it is a fact from here on. A check on the sizes of inputs is a
        decision.
        """
        answer = self.settled(formula)
        if answer is not False and self.about_data(formula):
            follows = implied(formula, self.facts)
            if answer is True and not follows:
                # This check follows from the operator's own assumption; the failing side is examined separately.
                follows = place().operator is not None
            return follows or self._check_data(formula, place, message)
        if answer is False and self._outside is not None and self.about_data(formula):  # fails for all inputs here
            self.learned.checks.append(DataCheck(formula, place(), message(), inside=True))
            self._mark_check()
            return True
        if answer is False and self.about_data(formula) and truth(formula, self.facts).always is False:
            self.learned.impossible = self.learned.impossible or DataCheck(formula, place(), message())
        if answer is not None:
            self._answered(formula, Kind.ASSERTED, place, outcome=answer)
            self._note(formula, Kind.ASSERTED, place, outcome=answer)
            return answer
        outcome = holds(formula, self.point)
        self._record(formula, Kind.ASSERTED, place, outcome=outcome)
        return outcome

    def enter(self) -> None:
        """Enter a body: until `leave`, checks are made only by the inputs that enter the body."""
        self._outside = (self.facts.fork(), self.region.fork(), len(self.steps), len(self.learned.formulas), [])

    def leave(self) -> None:
        """Leave a body: its checks are no longer facts; the promises of operators still are."""
        if self._outside is None:
            return
        self.facts, self.region, first, known, promised = self._outside
        self._outside = None
        self.memo.clear()
        self.learned.formulas[known:] = promised
        for formula in promised:
            self._know(formula)
        for step in self.steps[first:]:
            if step.teaches:
                self.region = self.region.assuming(step.decision.taken)
        self._mark_check()

    def learn(self, formula: Formula) -> None:
        """Take a promise of an operator (`0 <= nonzero(x).shape[0] <= x.numel()`) as a fact."""
        self.learned.formulas.append(formula)
        if self._outside is not None:
            self._outside[-1].append(formula)
        self._know(formula)
        self.data_point.fit(formula, self.region)

    def layout_read(self, sizes: Iterable[Term]) -> None:
        """Note that the model acts on a tensor's layout, which forgotten decisions may have determined."""
        self.layouts.doubtful |= self.ignores_layouts
        self.layouts.sizes_read[tuple(sizes)] = None

    def facts_before(self, question: Formula) -> Facts:
        """Return what held wherever the question was asked, without later checks and one-sided checks."""
        return self.known.assuming(*self.learned.formulas[: self.questions.learned_before.get(question, 0)])

    def elsewhere(self, cell: Facts, point: Mapping[str, int]) -> Trial:
        """Return a separate trial in a part of the domain."""
        apart = Trial(cell, {**self.point, **point}, data=self.data_point.is_data, in_place=self.in_place)
        self.share(apart)
        return apart

    def share(self, apart: Trial) -> None:
        """Let a trial in a part of the domain write views as this one does, and share what is known of questions."""
        apart.shared = replace(self.shared)

    def forget(self, first: int, harmless: Collection[int], known: int) -> None:
        """Take back the harmless steps among those since `first`, and the conclusions from them.

        Only the first `known` facts had been learned before `first`; later promises of operators are kept. No check on
        data may have been learned since then.
        """
        steps, self.steps = self.steps[first:], self.steps[:first]
        self.region = steps[0].given.assuming(*self.learned.formulas[known:])
        for index, step in enumerate(steps):
            if index in harmless:
                self.harmless.append(step)
            else:
                self.take(step)

    def keep(self, told: Container[Hashable]) -> None:
        """Take the decisions that determine how these results are laid, and forget no more decisions of their kind."""
        self.layouts.forgiving = False
        forgotten = self.layouts.forgotten
        for step in (step for storage in [*forgotten] if storage in told for step in forgotten.pop(storage)):
            if self.settled(step.decision.formula) is None:
                self.take(step)

    def take(self, step: Step) -> None:
        """Record a decision that was made before, as the last one."""
        self.steps.append(replace(step, given=self.region.fork()))
        if step.teaches:
            self.region = self.region.assuming(step.decision.taken)

    def _record(
        self,
        formula: Formula,
        kind: Kind,
        place: Callable[[], Place],
        *,
        outcome: bool,
        fallback: bool | None = None,
    ) -> None:
        here = place()
        decision = _decision(formula, kind, here, outcome=outcome)
        if not self._is_noted(formula, kind):
            self._note_as(decision, here)
        self.steps.append(Step(decision, self.region.fork(), fallback))
        self.region = self.region.assuming(decision.taken)
        if formula.symbols <= self.point.keys():
            self.region.add_sample(self.point)

    def _answered(self, formula: Formula, kind: Kind, place: Callable[[], Place], *, outcome: bool) -> None:
        """Note a question that the region answers, and the line that asks it first."""
        if formula not in self.questions.answered:
            self.questions.answered[formula] = _decision(formula, kind, place(), outcome=outcome)
            if self.steps and self._declared_to_be(formula) is None:
                self.questions.relative.add(formula)

    def _note(self, formula: Formula, kind: Kind, place: Callable[[], Place], *, outcome: bool) -> None:
        """Note a question that earlier decisions answered, if the facts alone leave it open."""
        if self._is_noted(formula, kind):
            return
        if formula not in self.shared.varying:
            self.shared.varying[formula] = self._varies(formula)
        if self.shared.varying[formula]:
            here = place()
            self._note_as(_decision(formula, kind, here, outcome=outcome), here)

    def _is_noted(self, formula: Formula, kind: Kind) -> bool:
        """True if a question has been noted, and this kind of question does not take precedence."""
        known = self.questions.asked.get(formula)
        return known is not None and (known.kind is not Kind.ASSUMED or kind is Kind.ASSUMED)

    def _note_as(self, decision: Decision, here: Place) -> None:
        """Note a question with its answer, and the place that asks."""
        self.questions.asked[decision.formula] = decision
        self.questions.names[decision.formula] = here.names
        self.questions.learned_before[decision.formula] = len(self.learned.formulas)

    def _varies(self, formula: Formula) -> bool:
        """True if the formula is seen to hold at some points of the domain and to fail at others.

        A varying formula that is missed only costs a reason. For data, no sample points are kept, so the facts are
        asked.
        """
        if self.about_data(formula):
            return truth(formula, self.facts).always is None
        samples = self.known.samples()
        return all(any(holds_at(side, point) for point in samples) for side in (formula, formula.negation))

    def _check_data(self, formula: Formula, place: Callable[[], Place], message: Callable[[], str]) -> bool:
        if not self.data_point.fit(formula, self.region):
            self.is_unfit = truth(formula, self.facts).always is not False
            return False
        here = place()
        self.learned.checks.append(DataCheck(formula, here, message(), inside=self._outside is not None))
        self.questions.names.setdefault(formula, here.names)
        self.questions.learned_before.setdefault(formula, len(self.learned.formulas))
        self.learned.formulas.append(formula)
        self._mark_check()
        self._know(formula)
        return True

    def _know(self, formula: Formula) -> None:
        """Take a formula as a fact from here on."""
        self.facts, self.region = self.facts.assuming(formula), self.region.assuming(formula)

    def _mark_check(self) -> None:
        """Note that a check on data has been learned just now."""
        self.learned.last_check = (len(self.steps), len(self.learned.formulas))

    def _side(self, formula: Formula, *, fallback: bool | None) -> bool:
        if fallback is not None and not formula.symbols <= self.point.keys():
            return fallback
        return self.data_point.complete(formula.symbols, self.region) and holds(formula, self.point)

    def _known_elsewhere(self, formula: Formula, place: Callable[[], Place]) -> bool | None:  # noqa: ARG002
        """Return an answer that is known without the region, if any (closed_trial.py)."""
        return None

    def _must_be_open(self, number: Term | Real, value: float, place: Callable[[], Place]) -> None:
        """Refuse to specialize a number if that is no longer possible (closed_trial.py)."""


def _decision(formula: Formula, kind: Kind, place: Place, *, outcome: bool) -> Decision:
    return Decision(formula, kind, outcome, place.user, place.operator, place.framework)
