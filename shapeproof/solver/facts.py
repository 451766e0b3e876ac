"""The facts in force: declarations, promises of operators, and the guards taken so far.

Law: Facts is the only carrier of knowledge; an answer is a function of the facts under which it is asked. All memoised
results belong to a state, which stands for one list of facts; a new fact leads to a new state.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from shapeproof.constraints.errors import Unevaluable
from shapeproof.constraints.formulas import FALSE, TRUE, Formula
from shapeproof.constraints.meaning.evaluate import Environment, defined, has_meaning, holds_at, true_at
from shapeproof.constraints.meaning.intervals import Bounds, Interval
from shapeproof.constraints.records.verdicts import Evidence, Proved
from shapeproof.constraints.terms import constant
from shapeproof.constraints.work import OutOfWork, charge, current_meter
from shapeproof.plain import Saving, saves_time
from shapeproof.solver.budget import Allowance, Budget, current_allowance, spending, until_spent
from shapeproof.solver.history import BEGINNING, History
from shapeproof.solver.learned import audit
from shapeproof.solver.learned.knowledge import Knowledge
from shapeproof.solver.learned.learning import absorb
from shapeproof.solver.learned.reduction import Expression, Reducer, substitute
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
from shapeproof.solver.smt.ask import Answer

_WANTED_POINTS = 6
_MOST_POINTS = 16
_MOST_TRIED = 64
_SHARE_OF_POINTS = 0.5
"""The share of a question's budget that may go into the search for a point at which the facts hold."""
_SHARE_OF_LEARNING = 0.5
_UNNAMED = (7, 0, -3, 1, 12, 2, 64, 35)
"""The values of a symbol that no fact mentions, by sample."""


@dataclass(slots=True)
class _State:
    """The consequences of one list of facts, shared by every Facts that has learned exactly this list.

    Law: a state keeps its list of facts; learning a fact leads to another state.
    """

    history: History = BEGINNING
    known: Knowledge = field(default_factory=Knowledge)
    conditions: Conditions = field(default_factory=Conditions)
    """The facts in a form that is quick to evaluate at points."""
    opaque: tuple[Formula, ...] = ()
    """The facts that cannot be evaluated at a point."""
    points: list[tuple[Point, int]] = field(default_factory=list)
    """Pairs of a point and the number of facts that were evaluated there."""
    answers: dict[Any, Any] = field(default_factory=dict)
    contradictory: bool | None = None
    searched: tuple[int, ...] = (-1, -1, -1)
    """The rlimit, points and work at hand in the last search for points; with no more of any, none would be found."""
    search_cost: tuple[int, int] = (0, 0)
    """The Z3 rlimit and the points that the search cost; every question of this state has this much less to spend."""
    after: dict[Formula, _State] = field(default_factory=dict)
    """Fact -> the state with this fact added."""

    def then(self, news: list[Formula], budget: Budget) -> _State:
        """Return the state with more facts.

        A fact that is too large to analyse within the budget is only checked at points.

        If several facts are too large together, each is analysed alone with its share of the budget.
        """
        with until_spent(budget.part(_SHARE_OF_LEARNING)):
            return self._understanding(news)
        if len(news) == 1:
            return self._heeding(news[0])
        state = self
        for each in news:
            state = state.then([each], budget.part(_SHARE_OF_LEARNING / len(news)))
        return state

    def apart(self) -> _State:
        """Return this state with none of those that followed it."""
        return replace(self, after={})

    def _heeding(self, formula: Formula) -> _State:
        """Return the state with a fact that every point must satisfy, but from which no conclusion is drawn."""
        conditions = self.conditions.copy()
        conditions.add(formula)
        opaque = () if has_meaning(formula) else (formula,)
        return _State(self.history.then(formula), self.known, conditions, self.opaque + opaque)

    def _understanding(self, news: list[Formula]) -> _State:
        history, conditions = self.history, self.conditions.copy()
        for formula in news:
            history = history.then(formula)
            conditions.add(formula)
        needed = [fact for formula in news for fact in (defined(formula), formula)]
        informative = [fact for fact in needed if Reducer(self.known).reduce(fact).constant is not True]
        if not informative:
            return self._saying_the_same(history, conditions, news)
        known = absorb(self.known, informative)
        opaque = tuple(fact for fact in informative if not has_meaning(fact))
        after = _State(history, known, conditions, self.opaque + opaque)
        points = [_carried(entry, after, informative) for entry in self.points if not opaque]
        after.points = [entry for entry in points if entry is not None]
        return after

    def _saying_the_same(self, history: History, conditions: Conditions, news: list[Formula]) -> _State:
        """Return the state with facts that it already implies; the points get values for new symbols."""
        whole = [(extended(self.known, point, news), checked) for point, checked in self.points]
        points = [(point, checked) for point, checked in whole if point is not None]
        answers = dict(self.answers)
        return replace(self, history=history, conditions=conditions, points=points, answers=answers, after={})


class Facts:
    """The facts that are known, in the order in which they were learned.

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
        told = tuple(formulas)
        key, remembering = (Facts, told, self.budget), saves_time(Saving.ANSWERS) and not audit.listening()
        begun = self.ledger.memo if remembering else {}
        if key not in begun:
            begun[key] = _State().then(list(told), self.budget)
        self._state: _State = begun[key]

    # learning

    def learn(self, formula: Formula) -> None:
        """Add a fact."""
        after = self._state.after.get(formula) if saves_time(Saving.ANSWERS) else None
        if after is None:
            after = self._state.after[formula] = self._state.then([formula], self.budget)
        self._state = after

    def fork(self) -> Facts:
        """Return an independent copy, which shares everything derived so far."""
        return copy.copy(self)

    def within(self, budget: Budget) -> Facts:
        """Return a copy with another budget for each question. What it learns stays its own: it may analyse less."""
        here = self.fork()
        here.budget = budget
        here._state = self._state.apart()  # noqa: SLF001 - of this class
        return here

    def aside(self) -> Facts:
        """Return a copy whose answers and samples stay its own: what is asked of it has no effect on these facts.

        >>> from shapeproof.constraints.syntax.text import parse_formula
        >>> facts = Facts([parse_formula("n >= 3")])
        >>> here = facts.aside()
        >>> here.add_point({"n": 77}), {"n": 77} in here.samples(), {"n": 77} in facts.samples()
        ({'n': 77}, True, False)
        """
        here, state = self.fork(), self._state
        own = replace(state.apart(), points=list(state.points), answers=dict(state.answers))
        here._state = own  # noqa: SLF001 - of this class
        return here

    def assuming(self, *formulas: Formula) -> Facts:
        """Return a copy that has also learned these formulas.

        >>> from shapeproof.constraints.syntax.text import parse_formula
        >>> facts = Facts([parse_formula("n >= 3")])
        >>> facts.assuming(parse_formula("n % 2 == 0")).formulas, facts.formulas
        ((n >= 3, n % 2 == 0), (n >= 3,))
        """
        here = self.fork()
        for formula in formulas:
            here.learn(formula)
        return here

    def resting_on(self, *formulas: Formula) -> Facts:
        """Return what `assuming` returns, with the formulas learned first if they are news.

        Formulas that sum up many facts, such as a condensed domain, make the facts that they imply cheap to learn.

        >>> from shapeproof.constraints.syntax.text import parse_formula
        >>> facts = Facts([parse_formula("n//2*2 == n")])
        >>> facts.resting_on(parse_formula("n % 4 == 0")).formulas
        (n % 4 == 0, n % 2 == 0)
        """
        if all(self.reduce(formula) is TRUE for formula in formulas):
            return self.assuming(*formulas)
        here = Facts(formulas, self.budget, self.ledger)
        return here.assuming(*self.formulas)

    # reading

    def contains(self, env: Environment) -> bool:
        """True if every fact has a value at the point and holds there."""
        return all(holds_at(formula, env) for formula in self.formulas)

    @property
    def formulas(self) -> tuple[Formula, ...]:
        """The facts as they were learned."""
        return self._state.history.formulas

    @property
    def search_cost(self) -> tuple[int, int]:
        """The Z3 rlimit and the number of points spent on finding out whether the facts are satisfiable."""
        return self._state.search_cost

    @property
    def history(self) -> History:
        """The facts as a chain that forks share."""
        return self._state.history

    @property
    def known(self) -> Knowledge:
        """The consequences of the facts, for the steps of the ladder."""
        return self._state.known

    @property
    def answers(self) -> dict[Any, Any]:
        """A memo whose entries are valid until the next fact is learned."""
        return self._state.answers if saves_time(Saving.ANSWERS) else {}

    def reduce(self, expression: Expression) -> Expression:
        """Return the expression rewritten by the facts, over the symbols that the facts leave free."""
        reducer = Reducer(self.known)
        return reducer.reduce(expression) if current_meter() else self._affordable(reducer.reduce, expression)

    def _affordable(self, rewrite: Callable[[Expression], Expression], expression: Expression) -> Expression:
        """Return the rewritten expression, or the expression itself if rewriting exceeds the budget."""
        try:
            with spending(self.budget):
                return rewrite(expression)
        except OutOfWork:
            return expression

    @property
    def ranges(self) -> dict[str, Interval]:
        """The bounds of every symbol that the facts bound."""
        found = {name: self.range_of(name) for name in sorted(self._state.history.symbols)}
        return {name: interval for name, interval in found.items() if interval != Interval()}

    def range_of(self, name: str) -> Interval:
        """Return the bounds of one symbol."""
        solved = self._state.known.solved.get(name)
        return self._state.known.range_of(name) if solved is None else self._state.known.bounds(solved)

    # points

    def samples(self) -> list[Point]:
        """Return some points at which every fact holds; an empty list if the budget found none."""
        return [public(point) for point in self.points()]

    def points(self, names: Iterable[str] = ()) -> list[Point]:
        """Return the samples, with values for these names and for the names that the solver made up for quotients."""
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
        """Recheck the samples on new facts; if none survives, search for others, once per budget."""
        state, ledger = self._state, self.ledger
        before = ledger.rlimit, ledger.points
        still = (point for point, checked in state.points if _all_hold(state.history.since(checked), point))
        state.points = [(point, len(state.history)) for point in still]
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
        """Try every point of a small box, after Z3 gave no answer."""
        known = self.known
        intervals = [known.range_of(name) for name in free]
        try:
            remaining = list(filter(has_meaning, known.remaining()))
            left = current_allowance() or Allowance(self.budget)
            chosen = list(islice(points_where(remaining, free, intervals, self.ledger, left), _MOST_TRIED))
        except (TooManyPointsError, Unevaluable):
            return
        self._state.contradictory = not chosen
        for each in chosen:
            point = complete(known, each)
            if point is not None and self.add_point(point) is not None:
                return

    def _moved(self, point: Point) -> Iterable[str] | None:
        """Return the names whose values differ from those of the most similar sample; None if there is no sample."""
        state = self._state
        current = [sample for sample, checked in state.points if checked == len(state.history)]
        return min((_differing(sample, point) for sample in current), key=len, default=None)

    def add_point(self, point: Point, moved: Iterable[str] | None = None) -> Point | None:
        """Keep a complete point if all facts hold there.

        `moved` names the symbols whose values differ from those of a sample: only facts about these symbols are
        evaluated. If `moved` is not given, the most similar sample is used.
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
        """True if some interpretation of the opaque functions makes all opaque facts hold at the point."""
        here = {name: constant(value) for name, value in point.items() if isinstance(value, int)}
        there = [substitute(part, here) for fact in self._state.opaque for part in (defined(fact), fact)]
        found = ask.satisfy(there, Bounds({}).of, self.budget, self.ledger, ask.QUICK)
        return found.answer is Answer.SAT and found.exact

    def add_sample(self, env: Environment) -> None:
        """Offer a point, such as the user's example. The point is ignored unless every fact holds there."""
        given: Any = {name: value if isinstance(value, float) else int(value) for name, value in env.items()}
        missing = free_symbols(self.known, self._state.history.symbols) - set(self.known.definitions) - set(given)
        point = named(self.known, given | dict.fromkeys(missing, 0))
        whole = None if point is None else filled(self.known, point)
        if whole is not None:
            self.add_point(whole)

    @property
    def contradictory(self) -> bool:
        """True if it is shown within the budget that no point satisfies the facts."""
        state = self._state
        if state.contradictory is None:
            state.contradictory = state.known.contradiction
            if not state.contradictory:
                self.points()
            if state.contradictory:
                self.ledger.enter(FALSE, state.history, Proved(Evidence("facts", "contradictory")))
        return bool(state.contradictory)


def _differing(left: Point, right: Point) -> set[str]:
    return {name for name in left.keys() | right.keys() if left.get(name) != right.get(name)}


def _carried(entry: tuple[Point, int], after: _State, news: list[Formula]) -> tuple[Point, int] | None:
    """Return a point of the old facts, or one near it, as a point of the old and new facts; None if there is none."""
    (point, checked), known = entry, after.known
    same = extended(known, point, news)
    if same is not None and _all_hold(news, same):
        return same, checked
    if after.opaque:  # opaque facts may fail at any other point
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
    """Return the point with values for symbols that no fact mentions."""
    return {name: _UNNAMED[(index + shift) % len(_UNNAMED)] for shift, name in enumerate(names)} | point
