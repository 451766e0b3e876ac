"""THE LADDER: does a formula hold wherever the facts do? Cheap steps come first, and each answer is justified.

    canonical    the formula is TRUE or FALSE as it is
    facts        it reduces to TRUE by the facts and their bounds
    evaluation   it fails at a point where the facts hold
    residues     it holds for each remainder of its symbols by their divisors
    alternatives it holds in each case of the disjunctions among the facts
    z3           Z3 finds its negation unsatisfiable on the cone of influence, or a point that evaluation confirms
    exhaustion   its box is small: every point was tried
    undecided    the budget ran out; the reason names the steps that were tried

A formula that may divide by zero does not hold there: the same ladder first proves that the formula is defined.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from types import ModuleType
from typing import Any

from shapeproof.constraints.errors import Unevaluable, UsageError
from shapeproof.constraints.formulas import TRUE, Formula, conjunction, eq, implies
from shapeproof.constraints.meaning.evaluate import defined, evaluate_number, has_meaning, true_at
from shapeproof.constraints.meaning.intervals import Interval
from shapeproof.constraints.reals import Real, RealConstant
from shapeproof.constraints.records.verdicts import Evidence, Proved, Refuted, Undecided, Vacuous, Verdict
from shapeproof.constraints.syntax.text import parse_relation
from shapeproof.constraints.terms import Term, symbol
from shapeproof.solver.budget import Allowance, Budget, is_affordable, until_spent
from shapeproof.solver.cases import proved_by_alternatives, proved_by_cases, refined
from shapeproof.solver.clash import clash
from shapeproof.solver.facts import Facts
from shapeproof.solver.learned import audit
from shapeproof.solver.learned.equalities import FRESH
from shapeproof.solver.learned.knowledge import Knowledge, within
from shapeproof.solver.sampled.exhaustion import TooManyPointsError, box_size, points_where
from shapeproof.solver.sampled.points import Point, complete, named, public
from shapeproof.solver.search import search
from shapeproof.solver.smt import ask
from shapeproof.solver.smt.ask import Answer

_MOST_FAILING = 16
_FEW_CASES = 12
_MOST_CASES = 128
"""The most cases of remainders: `_FEW_CASES` before Z3 is asked, `_MOST_CASES` after its quick attempts."""


@dataclass(frozen=True, slots=True)
class Truth:
    """Says whether a formula always holds, never holds, or depends on the point.

    `always` is True or False only with a proof. If the formula depends, `always` is None and both witnesses are set. If
    the budget ran out, `always` is None and `undecided` is True. Under contradictory facts, `always` is None and
    `vacuous` is True.
    """

    always: bool | None
    witness_true: Mapping[str, int] | None = None
    witness_false: Mapping[str, int] | None = None
    evidence: Evidence | None = None
    undecided: bool = False
    vacuous: bool = False

    @property
    def status(self) -> str:
        """One word: always, never, depends, undecided or vacuous."""
        if self.always is not None:
            return "always" if self.always else "never"
        return "vacuous" if self.vacuous else "undecided" if self.undecided else "depends"


def prove(
    text: str,
    bounds: Mapping[str, tuple[int | None, int | None]] | None = None,
    given: Sequence[str] = (),
    budget: Budget | None = None,
) -> Verdict:
    """Decide whether the formula holds for all integers within the bounds that satisfy every given formula.

    Args:
        text: the formula.
        bounds: the least and the greatest value of each symbol, None for no bound; other symbols are any integers.
        given: formulas that are assumed to hold.
        budget: what the question may cost.

    Returns:
        The verdict: its `status`, its `witness` if it is refuted, and its `evidence`.

    Raises:
        UsageError: a text is no formula, or bounds are not a pair of integers or None.

    >>> prove("(n + 7)//8*8 - n < 8", {"n": (1, None)}, given=["n % 2 == 0"]).status
    'proved'
    >>> prove("n // k <= n", {"n": (0, 9), "k": (0, 9)}).witness
    {'k': 0, 'n': 0}
    """
    if isinstance(given, str):
        raise UsageError(f"given must be a sequence of texts such as ['n % 2 == 0'], not {given!r}")
    declared = [each for name, pair in (bounds or {}).items() for each in _bounded(name, pair)]
    facts, asked = [*declared, *map(parse_relation, given)], parse_relation(text)
    for name in sorted(conjunction(asked, *facts).symbols):
        if name.startswith(FRESH):
            raise UsageError(f"`{name}` begins as the names that the solver makes up, with {FRESH}")
    known = Facts(facts, budget)
    answer = decide(asked, known)
    return Vacuous(tuple(map(str, clash(known)))) if isinstance(answer, Vacuous) else answer


def _bounded(name: str, pair: tuple[int | None, int | None]) -> list[Formula]:
    match pair:
        case (int() | None as lower, int() | None as upper):
            return within(symbol(name), Interval(lower, upper))
    raise UsageError(f"the bounds of `{name}` must be a pair such as (1, None), not {pair!r}")


def decide(formula: Formula, facts: Facts) -> Verdict:
    """Decide whether the formula holds at every point where all facts hold.

    >>> from shapeproof.constraints.syntax.text import parse_formula
    >>> from shapeproof.solver.facts import Facts
    >>> facts = Facts([parse_formula("n >= 1"), parse_formula("n % 2 == 0")])
    >>> decide(parse_formula("(n + 7)//8*8 - n < 8"), facts).status
    'proved'
    >>> decide(parse_formula("n >= 4"), facts).witness
    {'n': 2}
    """
    return _decided(formula, facts, facts.budget)


def implied(formula: Formula, facts: Facts) -> bool:
    """True if the formula is proved to hold wherever the facts do; False if the facts hold nowhere."""
    return isinstance(decide(formula, facts), Proved)


def redundant(formula: Formula, facts: Facts) -> bool:
    """True if the formula adds nothing to the facts: it is proved wherever they hold, or they hold nowhere."""
    return isinstance(decide(formula, facts), Proved | Vacuous)


def equal(one: Term | Real | Formula | None, other: Term | Real | Formula | None, facts: Facts) -> bool:
    """True if two integers or two conditions are proved equal wherever the facts hold.

    Floats are if they have the same form, or are the same double at all points.
    """
    if isinstance(one, Term) and isinstance(other, Term):
        return one is other or implied(eq(one, other), facts)
    if isinstance(one, Formula) and isinstance(other, Formula):
        return one is other or all(implied(implies(p, q), facts) for p, q in ((one, other), (other, one)))
    if isinstance(one, Real) and isinstance(other, Real):
        return one is other or _double(one, facts) is _double(other, facts)
    return one is other


def _double(number: Real, facts: Facts) -> Real:
    """Return a float as the facts leave it: as a constant if they leave one double, which Python computes there."""
    known = facts.reduce(number)
    if known.symbols:
        return known
    try:
        return RealConstant(evaluate_number(known, {}))
    except (ArithmeticError, ValueError, Unevaluable):
        return known


def _decided(formula: Formula, facts: Facts, budget: Budget) -> Verdict:
    """Return the verdict, memoised per state of the facts. Only undecided verdicts are memoised per budget."""
    answer: Verdict | None = facts.answers.get(formula) or facts.answers.get((formula, budget))
    if answer is None:
        before, affordable = facts.ledger.rlimit, is_affordable(budget)
        answer = _answer(formula, facts, budget)
        if not isinstance(answer, Undecided):
            facts.answers[formula] = answer
        else:
            answer = replace(answer, spent=facts.ledger.rlimit - before)
            facts.answers.update({(formula, budget): answer} if affordable else {})
        facts.ledger.enter(formula, facts.history, answer)
    return answer


def _answer(formula: Formula, facts: Facts, budget: Budget) -> Verdict:
    if facts.contradictory:
        return Vacuous()
    with until_spent(budget.without(*facts.search_cost)) as left:
        condition = defined(formula)
        verdict = None if condition is TRUE else _valid(condition, facts, left)
        if verdict is not None and not isinstance(verdict, Proved):
            return _where_undefined(formula, verdict)
        return _valid(formula, facts, left)
    return Undecided(f"the budget of {budget.work} steps of work was used up")


def _where_undefined(formula: Formula, verdict: Verdict) -> Verdict:
    """Return the verdict on a formula that is not proved to be defined everywhere."""
    match verdict:
        case Refuted(witness) if true_at(formula, whole := {**dict.fromkeys(formula.symbols, 0), **witness}) is False:
            return Refuted(dict(sorted(whole.items())), Evidence("evaluation", "division by zero"))
        case Undecided():
            return Undecided(f"it could not be shown that it is defined: {verdict.reason}", verdict.spent)
        case _:
            return Undecided("it could not be shown that it is defined")


def _valid(formula: Formula, facts: Facts, left: Allowance) -> Verdict:
    """Climb the ladder for a formula whose definedness needs no proof."""
    reduced = facts.reduce(formula)
    if reduced.constant is True:
        return Proved(Evidence("canonical" if formula.constant is not None else "facts"))
    for point in facts.points(formula.symbols):
        if true_at(formula, point) is False:
            return Refuted(public(point), Evidence("evaluation", "a sample"))
    found = search(reduced.negation, formula.negation, facts)
    if found is not None:
        return Refuted(public(found), Evidence("evaluation", "a point near a sample"))
    finer, known = refined(reduced, facts.known)
    if finer is TRUE:
        return Proved(Evidence("facts", "quotients"))
    question = _Question(formula, finer, known, facts, left)
    return (
        question.by_cases(_FEW_CASES)
        or question.by_solver(ask.QUICK)
        or question.by_cases(_MOST_CASES)
        or question.by_alternatives()
        or question.by_solver(ask.THOROUGH)
        or question.by_exhaustion()
    )


@dataclass(frozen=True, slots=True)
class _Box:
    """A box of named ranges, and formulas that hold exactly where the question fails inside the box."""

    names: Sequence[str]
    intervals: Sequence[Interval]
    formulas: Sequence[Formula]
    rewritten: bool = True
    """True if the formulas are reduced, over the symbols that the facts leave free."""


@dataclass(slots=True)
class _Question:
    """A question that the cheap steps left open.

    `finer` is the formula after splitting symbols by quotients, `known` the knowledge after the same split.
    """

    formula: Formula
    finer: Formula
    known: Knowledge
    facts: Facts
    left: Allowance

    def by_cases(self, most: int) -> Verdict | None:
        """Prove the formula for each remainder of its symbols, if there are at most `most` cases."""
        moduli = proved_by_cases(self.finer, self.known, most)
        return None if moduli is None else Proved(Evidence("facts", f"residues: {moduli}"))

    def by_alternatives(self) -> Verdict | None:
        """Prove the formula in each case of the disjunctions."""
        number = proved_by_alternatives(self.finer, self.known)
        return None if number is None else Proved(Evidence("facts", f"alternatives: {number}"))

    def by_solver(self, attempts: Sequence[ask.Attempt]) -> Verdict | None:
        """Ask Z3 on the cone of influence."""
        known, facts = self.known, self.facts
        cone = known.cone(self.finer.symbols)
        found = ask.satisfy([*cone, self.finer.negation], known.bounds, facts.budget, facts.ledger, attempts)
        if found.answer is Answer.UNSAT:
            audit.note("z3", known, self.finer)
            return Proved(Evidence("z3", f"cone of {len(cone)} facts"))
        point = None if found.model is None else self._believed(found.model)
        return None if point is None else Refuted(public(point), Evidence("z3", "a model, confirmed by evaluation"))

    def by_exhaustion(self) -> Verdict:
        """Try every point of a small box, if there is one."""
        if not has_meaning(self.finer):
            return Undecided("Z3 found no proof, and no point can be tried: an opaque function takes part")
        reason = "Z3 found neither a proof nor a point, and there are too many points to try them all"
        for box in self._boxes():
            points = points_where(box.formulas, box.names, box.intervals, self.facts.ledger, self.left)
            try:
                failing = list(islice(points, _MOST_FAILING))
            except TooManyPointsError:
                continue
            except Unevaluable:
                reason = "Z3 found no proof, and at some points the formula has no value that can be computed"
                continue
            if not failing:
                return Proved(Evidence("exhaustion", f"{box_size(box.intervals)} points"))
            for candidate in failing:
                point = self._believed(candidate) if box.rewritten else self._kept(candidate)
                if point is not None:
                    return Refuted(public(point), Evidence("exhaustion"))
            reason = "Z3 found no proof, and no point where it fails could be confirmed"
        return Undecided(reason)

    def _boxes(self) -> Iterator[_Box]:
        """Boxes over the formula's symbols, over its cone of influence, and over the user's symbols and facts."""
        finer, known, facts = self.finer, self.known, self.facts
        everything = [fact for fact in known.cone(finer.symbols) if has_meaning(fact)]
        for symbols in (finer.symbols, finer.symbols.union(*(fact.symbols for fact in everything))):
            names = sorted(symbols)
            inside = [fact for fact in everything if fact.symbols <= symbols]
            yield _Box(names, [known.range_of(name) for name in names], [*inside, finer.negation])
        if has_meaning(self.formula):
            names = sorted(facts.history.symbols | self.formula.symbols)
            said = [*filter(has_meaning, facts.formulas), self.formula.negation]
            yield _Box(names, [facts.range_of(name) for name in names], said, rewritten=False)

    def _kept(self, candidate: Point) -> Point | None:
        """Keep a candidate over the user's symbols, if the facts with a meaning hold there and the others may hold."""
        point = named(self.facts.known, candidate)
        return None if point is None else self.facts.add_point(point)

    def _believed(self, model: Mapping[str, int]) -> Point | None:
        """Return the candidate as a complete point, if all facts hold there and the formula fails.

        `self.known` may contain names that the facts do not use; those are left out of the point.
        """
        known, facts = self.known, self.facts
        for base in facts.points(self.formula.symbols):
            whole = named(known, base) or base
            free = {name: value for name, value in whole.items() if name not in known.solved}
            point = complete(known, free | {name: value for name, value in model.items() if name in free})
            if point is not None and true_at(self.formula, point) is False:
                kept = facts.add_point({name: value for name, value in point.items() if name in base})
                if kept is not None:
                    return kept
        return None


def truth(formula: Formula, facts: Facts) -> Truth:
    """Decide whether the formula always holds, never holds, or depends on the point.

    >>> from shapeproof.constraints.syntax.text import parse_formula
    >>> from shapeproof.solver.facts import Facts
    >>> facts = Facts([parse_formula("h % 4 == 0"), parse_formula("h >= 8")])
    >>> truth(parse_formula("h == 1"), facts).always
    False
    """
    budget = facts.budget
    answer: Truth | None = facts.answers.get(("truth", formula)) or facts.answers.get(("truth", formula, budget))
    if answer is None:
        answer = Truth(None, vacuous=True) if facts.contradictory else Truth(None, undecided=True)
        with until_spent(budget) as left:
            answer = answer if answer.vacuous else _by_sides(formula, facts, budget, left)
        facts.answers[("truth", formula, budget) if answer.undecided else ("truth", formula)] = answer
    return answer


def _by_sides(formula: Formula, facts: Facts, budget: Budget, left: Allowance) -> Truth:
    reduced = facts.reduce(formula)
    sides: dict[bool, Mapping[str, int]] = {} if reduced.constant is not None else _samples_by_side(formula, facts)
    expected = reduced.constant is True or (reduced.constant is None and True in sides)
    verdict: Verdict = Undecided("not asked")
    each = budget if sides or reduced.constant is not None else budget.part(0.5)
    for side in (expected, not expected):
        if (not side) in sides:
            continue
        verdict = _decided(formula if side else formula.negation, facts, each)
        if isinstance(verdict, Proved):
            return Truth(side, evidence=verdict.evidence)
        if isinstance(verdict, Refuted) and true_at(formula, verdict.witness) is not side:
            sides[not side] = verdict.witness
    if True not in sides and not formula.total:  # where the formula raises, neither it nor its negation holds
        verdict = _valid(conjunction(defined(formula), formula).negation, facts, left)
        sides |= {True: verdict.witness} if isinstance(verdict, Refuted) else {}
    settled = len(sides) == len({True, False})
    evidence = verdict.evidence or Evidence("evaluation", "two samples") if settled else None
    return Truth(None, sides.get(True), sides.get(False), evidence, undecided=not settled)


def _samples_by_side(formula: Formula, facts: Facts) -> dict[bool, Mapping[str, int]]:
    """Return a sample at which the formula holds and one at which it fails, if there are any."""
    sides: dict[bool, Mapping[str, int]] = {}
    for point in facts.points(formula.symbols):
        side = true_at(formula, point)
        if side is not None and side not in sides:
            sides[side] = public(point)
    return sides


class _CallableModule(ModuleType):
    """Lets `shapeproof.solver.prove` be called: after its import the name denotes this module, not the function."""

    def __call__(self, *args: Any, **kwargs: Any) -> Verdict:
        return prove(*args, **kwargs)


sys.modules[__name__].__class__ = _CallableModule
