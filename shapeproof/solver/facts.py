"""The facts in force: what was declared, what operators promise, and what was decided on the way.

A Facts is the only carrier of knowledge: every answer is a function of the facts it is asked under and of nothing else.
All that is remembered for speed hangs on a state, which stands for one list of facts, and is left behind with it.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from shapeproof.constraints.errors import Unevaluable
from shapeproof.constraints.formulas import FALSE, Formula
from shapeproof.constraints.meaning.definedness import defined
from shapeproof.constraints.meaning.evaluate import has_meaning, holds_at, true_at
from shapeproof.constraints.meaning.intervals import Bounds, Interval
from shapeproof.constraints.records.verdicts import Evidence, Proved
from shapeproof.constraints.terms import constant
from shapeproof.constraints.work import OutOfWork, charge, current_meter
from shapeproof.solver.budget import Allowance, Budget, current_allowance, spending
from shapeproof.solver.history import BEGINNING, History
from shapeproof.solver.learned.knowledge import Knowledge
from shapeproof.solver.learned.learning import absorb
from shapeproof.solver.learned.reduction import Expression, Reducer
from shapeproof.solver.learned.substitution import substitute
from shapeproof.solver.ledger import Ledger, current_ledger
from shapeproof.solver.sampled.conditions import Conditions
from shapeproof.solver.sampled.exhaustion import TooManyPointsError, points_where
from shapeproof.solver.sampled.points import (
    Point,
    candidates,
    carried,
    complete,
    extended,
    filled,
    free_symbols,
    named,
    nudged,
    public,
    satisfies,
)
from shapeproof.solver.smt import ask
from shapeproof.solver.smt.session import Answer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from shapeproof.constraints.meaning.evaluate import Environment

_WANTED_POINTS = 6
_MOST_POINTS = 16
_MOST_TRIED = 64
_SHARE_OF_POINTS = 0.5
"""How much of a question's budget may go into looking for a point at which the facts hold at all."""
_SHARE_OF_LEARNING = 0.5
_UNNAMED = (7, 0, -3, 1, 12, 2, 64, 35)
"""Values for a symbol that no fact mentions, by sample."""


@dataclass(slots=True)
class _State:
    """What follows from one list of facts, for all who have learned just these: what is worked out is kept for them.

    A fact never enters a state, it leads to another.
    """

    history: History = BEGINNING
    known: Knowledge = field(default_factory=Knowledge)
    conditions: Conditions = field(default_factory=Conditions)
    """The facts again, for points."""
    opaque: tuple[Formula, ...] = ()
    """Those of the facts that cannot be evaluated at a point."""
    reducer: Reducer = field(init=False)
    points: list[tuple[Point, int]] = field(default_factory=list)
    """A point, and how many of the facts were evaluated there."""
    answers: dict[Any, Any] = field(default_factory=dict)
    contradictory: bool | None = None
    searched: tuple[int, ...] = (-1, -1, -1)
    """With how much at hand points were looked for so far: with no more of anything, none would be found."""
    search_cost: tuple[int, int] = (0, 0)
    """How much of Z3's counter, and how many points, went into that: every question of this state has less to spend."""
    after: dict[Formula, _State] = field(default_factory=dict)
    """Where one more fact leads."""

    def __post_init__(self) -> None:
        self.reducer = Reducer(self.known)

    def then(self, news: list[tuple[Formula, object]], budget: Budget) -> _State:
        """The state with more facts. What is too large to be understood within the budget is only held against points.

        Of many facts, each is tried alone then, with its part of the budget.
        """
        try:
            with spending(budget.part(_SHARE_OF_LEARNING)):
                return self._understanding(news)
        except OutOfWork:
            charge(0)  # nothing is left around either
            if len(news) == 1:
                return self._heeding(*news[0])
        state = self
        for each in news:
            state = state.then([each], budget.part(_SHARE_OF_LEARNING / len(news)))
        return state

    def _heeding(self, formula: Formula, origin: object) -> _State:
        """The state with a fact from which nothing is concluded, but which every point is to satisfy."""
        conditions = self.conditions.copy()
        conditions.add(formula)
        opaque = () if has_meaning(formula) else (formula,)
        return _State(self.history.then(formula, origin), self.known, conditions, self.opaque + opaque)

    def _understanding(self, news: list[tuple[Formula, object]]) -> _State:
        history, conditions = self.history, self.conditions.copy()
        for formula, origin in news:
            history = history.then(formula, origin)
            conditions.add(formula)
        needed = [fact for formula, _ in news for fact in (defined(formula), formula)]
        informative = [fact for fact in needed if self.reducer.reduce(fact).constant is not True]
        if not informative:
            return self._saying_the_same(history, conditions, [formula for formula, _ in news])
        known = absorb(self.known, informative, self.reducer)
        opaque = tuple(fact for fact in informative if not has_meaning(fact))
        after = _State(history, known, conditions, self.opaque + opaque)
        points = [_carried(entry, after, informative) for entry in self.points if not opaque]
        after.points = [entry for entry in points if entry is not None]
        return after

    def _saying_the_same(self, history: History, conditions: Conditions, news: list[Formula]) -> _State:
        """The state with facts that follow from it; they may name symbols that the points have no value for."""
        whole = [(extended(self.known, point, news), checked) for point, checked in self.points]
        points = [(point, checked) for point, checked in whole if point is not None]
        answers = dict(self.answers)
        twin = replace(self, history=history, conditions=conditions, points=points, answers=answers, after={})
        twin.reducer = self.reducer
        return twin


class Facts:
    """What is known, in the order in which it was learned.

    >>> from shapeproof.constraints.syntax.text import parse_formula, parse_term
    >>> facts = Facts([parse_formula("h % 4 == 0"), parse_formula("h // 4 >= 5")])
    >>> facts.reduce(parse_term("h % 8 % 4 + min(h, 3)")), facts.range_of("h")
    (3, Interval(lower=20, upper=None))
    """

    def __init__(
        self, formulas: Iterable[Formula] = (), budget: Budget | None = None, ledger: Ledger | None = None
    ) -> None:
        self.budget = budget or Budget()
        self.ledger = ledger or current_ledger()
        self._state = _State().then([(formula, None) for formula in formulas], self.budget)

    # learning

    def learn(self, formula: Formula, origin: object = None) -> None:
        """Add a fact; `origin` is kept beside it for whoever asks."""
        after = self._state.after.get(formula) if origin is None else None
        if after is None:
            after = self._state.then([(formula, origin)], self.budget)
        if origin is None:
            self._state.after[formula] = after
        self._state = after

    def fork(self) -> Facts:
        """Facts that say the same now, and learn on their own from here on. What was worked out so far is shared."""
        return copy.copy(self)

    def assuming(self, *formulas: Formula) -> Facts:
        """Facts that say these formulas, too; the facts themselves learn nothing.

        >>> from shapeproof.constraints.syntax.text import parse_formula
        >>> facts = Facts([parse_formula("n >= 3")])
        >>> facts.assuming(parse_formula("n % 2 == 0")).formulas, facts.formulas
        ((n >= 3, n % 2 == 0), (n >= 3,))
        """
        here = self.fork()
        for formula in formulas:
            here.learn(formula)
        return here

    # reading

    def contains(self, env: Environment) -> bool:
        """Whether every fact has a value at a point and holds there."""
        return all(holds_at(formula, env) for formula in self.formulas)

    @property
    def formulas(self) -> tuple[Formula, ...]:
        """The facts as they were learned."""
        return self._state.history.formulas

    @property
    def search_cost(self) -> tuple[int, int]:
        """How much of Z3's counter was spent to find out whether they hold anywhere, and how many points were tried."""
        return self._state.search_cost

    @property
    def origins(self) -> tuple[object, ...]:
        """What was said to be the origin of each."""
        return self._state.history.origins

    @property
    def history(self) -> History:
        """The same as a chain that forks share."""
        return self._state.history

    @property
    def known(self) -> Knowledge:
        """What they amount to, for the steps of the ladder."""
        return self._state.known

    @property
    def answers(self) -> dict[Any, Any]:
        """A place for answers that hold until the next fact is learned."""
        return self._state.answers

    def reduce(self, expression: Expression) -> Expression:
        """The expression rewritten by the facts, over the symbols that they leave open."""
        reducer = self._state.reducer
        return reducer.reduce(expression) if current_meter() else self._affordable(reducer.reduce, expression)

    def _affordable(self, rewrite: Callable[[Expression], Expression], expression: Expression) -> Expression:
        """The expression rewritten, or as it is where that takes more than the budget allows."""
        try:
            with spending(self.budget):
                return rewrite(expression)
        except OutOfWork:
            return expression

    @property
    def ranges(self) -> dict[str, Interval]:
        """Bounds of every symbol that the facts bound."""
        known = self._state.known
        names = self._state.history.symbols
        found = {name: self.range_of(name) for name in sorted(names)}
        return {name: interval for name, interval in found.items() if interval != Interval()} | {
            name: interval for name, interval in known.ranges.items() if name in names
        }

    def range_of(self, name: str) -> Interval:
        """Bounds of one symbol."""
        solved = self._state.known.solved.get(name)
        return self._state.known.range_of(name) if solved is None else self._state.known.bounds(solved)

    # points

    def samples(self) -> list[Point]:
        """Some points at which every fact holds; none only if none was found within the budget."""
        return [public(point) for point in self.points()]

    def points(self, names: Iterable[str] = ()) -> list[Point]:
        """The samples, with a value for each of these names, and for the names made up for quotients."""
        state = self._state
        try:
            with spending(self.budget.part(_SHARE_OF_POINTS)):
                self._look_for_points()
        except OutOfWork:
            charge(0)
            state.points = [entry for entry in state.points if entry[1] == len(state.history)]
        strange = sorted(name for name in set(names) if name not in state.points[0][0]) if state.points else []
        if strange:
            state.points = [(_with_strangers(point, strange, at), n) for at, (point, n) in enumerate(state.points)]
        return [point for point, _ in state.points]

    def _look_for_points(self) -> None:
        """Check the points that are there; where none is left, look for others, once."""
        state, ledger = self._state, self.ledger
        before = ledger.rlimit, ledger.points
        state.points = [
            (point, len(state.history)) for point, checked in state.points if self._believable(point, checked)
        ]
        left = current_allowance() or Allowance(self.budget)
        at_hand = left.rlimit, left.points, left.left
        if not state.points and any(now > then for now, then in zip(at_hand, state.searched, strict=True)):
            state.searched = at_hand
            try:
                self._fill()
            finally:
                state.search_cost = ledger.rlimit - before[0], ledger.points - before[1]

    def _fill(self) -> None:
        known = self._state.known
        if known.contradiction:
            return
        free = free_symbols(known, self._state.history.symbols)
        for point in candidates(known, free):
            if satisfies(known, point):
                self.add_point(point)
            if len(self._state.points) >= _WANTED_POINTS:
                return
        if not self._state.points:
            self._solve_for_point(free)

    def _solve_for_point(self, free: set[str]) -> None:
        state = self._state
        known = state.known
        found = ask.satisfy(
            [*known.remaining(), *known.range_formulas(sorted(free))], known.bounds, self.budget, self.ledger
        )
        if found.answer is Answer.UNSAT:
            state.contradictory = True
            return
        point = None
        if found.model is not None:
            point = complete(known, {name: found.model.get(name, 0) for name in free})
        if point is None or self.add_point(point) is None:
            self._try_every_point(sorted(free))

    def _try_every_point(self, free: list[str]) -> None:
        """For what Z3 does not decide, if the box is small."""
        known = self.known
        intervals = [known.range_of(name) for name in free]
        try:
            remaining, left = (
                list(filter(has_meaning, known.remaining())),
                current_allowance() or Allowance(self.budget),
            )
            chosen = list(islice(points_where(remaining, free, intervals, self.ledger, left), _MOST_TRIED))
        except (TooManyPointsError, Unevaluable):
            return
        self._state.contradictory = not chosen
        for each in chosen:
            point = complete(known, each)
            if point is not None and self.add_point(point) is not None:
                return

    def _believable(self, point: Point, checked: int = 0) -> bool:
        """Whether all facts that have a meaning hold there, evaluated as they were learned; the first ones were."""
        return _all_hold(self._state.history.since(checked), point)

    def _moved(self, point: Point) -> Iterable[str] | None:
        """The names whose values are not those of a sample, the one most like the point; None if there is none."""
        state = self._state
        current = [sample for sample, checked in state.points if checked == len(state.history)]
        return min((_differing(sample, point) for sample in current), key=len, default=None)

    def add_point(self, point: Point, moved: Iterable[str] | None = None) -> Point | None:
        """Keep a whole point if all facts hold there; where nothing that it speaks of is `moved`, a fact does.

        What is not moved has the values of a sample. If it is not given, it is found out.
        """
        state = self._state
        whole = dict(point)
        if not state.conditions.hold(whole, self._moved(whole) if moved is None else moved):
            return None
        if state.opaque and not self._leaves_open(whole):
            return None
        if len(state.points) < _MOST_POINTS and all(whole != each for each, _ in state.points):
            state.points.append((whole, len(state.history)))
        return whole

    def _leaves_open(self, point: Point) -> bool:
        """Whether the facts that cannot be evaluated may all hold there: some functions make them true."""
        here = {name: constant(value) for name, value in point.items() if isinstance(value, int)}
        there = [substitute(part, here) for fact in self._state.opaque for part in (defined(fact), fact)]
        found = ask.satisfy(there, Bounds({}).of, self.budget, self.ledger, ask.QUICK)
        return found.answer is Answer.SAT and found.exact

    def add_sample(self, env: Environment) -> None:
        """Offer a point, such as the user's example. It is ignored unless every fact holds there."""
        given: Any = {name: value if isinstance(value, float) else int(value) for name, value in env.items()}
        missing = free_symbols(self.known, self._state.history.symbols) - set(self.known.definitions) - set(given)
        point = named(self.known, given | dict.fromkeys(missing, 0))
        whole = None if point is None else filled(self.known, point)
        if whole is not None:
            self.add_point(whole)

    @property
    def contradictory(self) -> bool:
        """Whether no point satisfies the facts, as far as the budget shows."""
        state = self._state
        if state.contradictory is None:
            state.contradictory = state.known.contradiction
            if not state.contradictory:
                self.points()
            if state.contradictory:
                self.ledger.enter(FALSE, state.history, Proved(Evidence("facts", "contradictory")))
        return bool(state.contradictory)


def _differing(left: Point, right: Point) -> set[str]:
    """The names that the two do not give the same value."""
    return {name for name in left.keys() | right.keys() if left.get(name) != right.get(name)}


def _carried(entry: tuple[Point, int], after: _State, news: list[Formula]) -> tuple[Point, int] | None:
    """A point of the facts so far as one of the facts with the news, if it is one or is near one."""
    (point, checked), known = entry, after.known
    same = extended(known, point, news)
    if same is not None and _all_hold(news, same):
        return same, checked
    if after.opaque:  # at another point, those that cannot be evaluated may fail
        return None
    for near, changed in nudged(known, same, news) if same is not None else ():
        if _all_hold(news, near) and after.conditions.hold(near, changed):
            return near, checked
    free = free_symbols(known, after.history.symbols)
    whole = carried(known, free | (point.keys() - known.definitions.keys() - known.solved.keys()), point)
    if whole is None or not _all_hold(news, whole):
        return None
    return whole, checked if all(whole[name] == value for name, value in point.items()) else 0


def _all_hold(facts: Iterable[Formula], point: Point) -> bool:
    return all(true_at(formula, point) for formula in facts if has_meaning(formula))


def _with_strangers(point: Point, names: list[str], index: int) -> Point:
    """The point with values for symbols that no fact mentions."""
    return {name: _UNNAMED[(index + shift) % len(_UNNAMED)] for shift, name in enumerate(names)} | point
