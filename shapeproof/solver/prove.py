"""THE LADDER: does a formula hold wherever the facts do? Cheap steps first; each answers only what it can justify.

    canonical    the formula is TRUE or FALSE as it stands
    facts        it is, once rewritten by the facts and their bounds
    evaluation   it fails at a point where the facts hold
    residues     each remainder of its symbols by the divisors makes it true
    alternatives each side of what is said with `or` makes it true
    z3           Z3 finds its negation unsatisfiable on the cone of influence, or a point that evaluation confirms
    exhaustion   its box is small: every point was tried
    undecided    the budget ran out; what was tried is said

A formula that may divide by zero does not hold there: its definedness is proved first, by the same ladder.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from itertools import islice
from types import ModuleType
from typing import TYPE_CHECKING

from shapeproof.constraints.errors import Unevaluable, UsageError
from shapeproof.constraints.formulas import TRUE, conjunction
from shapeproof.constraints.meaning.definedness import defined
from shapeproof.constraints.meaning.evaluate import has_meaning, true_at
from shapeproof.constraints.meaning.intervals import Interval
from shapeproof.constraints.records.verdicts import Evidence, Proved, Refuted, Undecided, Vacuous, Verdict
from shapeproof.constraints.syntax.text import parse_relation
from shapeproof.constraints.work import OutOfWork, charge
from shapeproof.solver.alternatives import proved_by_alternatives
from shapeproof.solver.budget import Allowance, is_affordable, spending
from shapeproof.solver.cases import proved_by_cases, refined
from shapeproof.solver.clash import clash
from shapeproof.solver.facts import Facts
from shapeproof.solver.learned import audit
from shapeproof.solver.learned.equalities import FRESH
from shapeproof.solver.learned.knowledge import within
from shapeproof.solver.sampled.exhaustion import TooManyPointsError, box_size, points_where
from shapeproof.solver.sampled.points import Point, complete, named, public
from shapeproof.solver.search import search
from shapeproof.solver.smt import ask
from shapeproof.solver.smt.session import Answer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from shapeproof.constraints.formulas import Formula
    from shapeproof.solver.budget import Budget
    from shapeproof.solver.learned.knowledge import Knowledge


_MOST_FAILING = 16
_FEW_CASES = 12
_MOST_CASES = 128
"""So many cases of remainders are looked at before Z3 is asked, and after it was asked quickly and did not know."""


@dataclass(frozen=True, slots=True)
class Truth:
    """Whether a formula always holds, never does, or depends.

    `always` is True or False only where that is proved; None with both witnesses where it depends; None and
    `undecided` where the budget ran out. Under contradictory facts nothing is claimed: `always` is None and `vacuous`
    is True.
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
    """Does the formula hold for all integers within the bounds for which everything given holds?

    Args:
        text: the formula.
        bounds: the least and the greatest value of each symbol, None for none; one that is not named is any integer.
        given: formulas that hold.
        budget: what the question may cost.

    Returns:
        The verdict: its `status`, its `witness` where it is refuted, and its `evidence`.

    Raises:
        UsageError: a text is no formula, or bounds are not a pair of integers (None: there is none).

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
    return decide(asked, Facts(facts, budget))


def _bounded(name: str, pair: tuple[int | None, int | None]) -> list[Formula]:
    match pair:
        case (int() | None as lower, int() | None as upper):
            return within(name, Interval(lower, upper))
    raise UsageError(f"the bounds of `{name}` must be a pair such as (1, None), not {pair!r}")


def decide(formula: Formula, facts: Facts, budget: Budget | None = None) -> Verdict:
    """Does the formula hold at every point where all facts hold?

    >>> from shapeproof.constraints.syntax.text import parse_formula
    >>> from shapeproof.solver.facts import Facts
    >>> facts = Facts([parse_formula("n >= 1"), parse_formula("n % 2 == 0")])
    >>> decide(parse_formula("(n + 7)//8*8 - n < 8"), facts).status
    'proved'
    >>> decide(parse_formula("n >= 4"), facts).witness
    {'n': 2}
    """
    answer = _decided(formula, facts, budget or facts.budget)
    facts.ledger.note(answer.evidence.step if answer.evidence else "none", answer.status)
    return answer


def implied(formula: Formula, facts: Facts, budget: Budget | None = None) -> bool:
    """Whether it is proved that the formula holds wherever the facts do, and they do somewhere."""
    return isinstance(decide(formula, facts, budget), Proved)


def redundant(formula: Formula, facts: Facts, budget: Budget | None = None) -> bool:
    """Whether the formula says nothing more: it is proved wherever the facts hold, if they hold anywhere."""
    return isinstance(decide(formula, facts, budget), Proved | Vacuous)


def _decided(formula: Formula, facts: Facts, budget: Budget) -> Verdict:
    """The verdict, worked out once for each state of the facts. A budget matters only to what is left undecided."""
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
        return Vacuous(tuple(str(fact) for fact in clash(facts)))
    try:
        with spending(budget.without(*facts.search_cost)) as left:
            return _where_not_vacuous(formula, facts, left)
    except OutOfWork:
        charge(0)  # nothing is left around either
        return Undecided(f"the budget of {budget.work} steps of work was used up")


def _where_not_vacuous(formula: Formula, facts: Facts, left: Allowance) -> Verdict:
    condition = defined(formula)
    if condition is not TRUE:
        verdict = _valid(condition, facts, left)
        if not isinstance(verdict, Proved):
            return _where_undefined(formula, verdict)
    return _valid(formula, facts, left)


def _where_undefined(formula: Formula, verdict: Verdict) -> Verdict:
    """It is refuted or open that the formula is defined everywhere: what that says of the formula."""
    match verdict:
        case Refuted(witness) if true_at(formula, whole := {**dict.fromkeys(formula.symbols, 0), **witness}) is False:
            return Refuted(dict(sorted(whole.items())), Evidence("evaluation", "division by zero"))
        case Undecided():
            return Undecided(f"it could not be shown that it is defined: {verdict.reason}", verdict.spent)
        case _:
            return Undecided("it could not be shown that it is defined")


def _valid(formula: Formula, facts: Facts, left: Allowance) -> Verdict:
    """The ladder itself, for a formula whose definedness is not in question."""
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
        or question.by_solver(ask.QUICK, nearby=True)
        or question.by_cases(_MOST_CASES)
        or question.by_alternatives()
        or question.by_solver(ask.THOROUGH)
        or question.by_exhaustion()
    )


@dataclass(frozen=True, slots=True)
class _Box:
    """Names with their ranges, and what must hold at a point of them for the question to fail there."""

    names: Sequence[str]
    intervals: Sequence[Interval]
    formulas: Sequence[Formula]
    rewritten: bool = True
    """Whether the formulas are reduced ones, over the symbols that the facts leave open."""


@dataclass(slots=True)
class _Question:
    """What the cheap steps left open: the formula, and as it is written where the knowledge is split by quotients."""

    formula: Formula
    finer: Formula
    known: Knowledge
    facts: Facts
    left: Allowance

    def by_cases(self, most: int) -> Verdict | None:
        """Each remainder of its symbols, if there are not too many."""
        moduli = proved_by_cases(self.finer, self.known, most)
        return None if moduli is None else Proved(Evidence("facts", f"residues: {moduli}"))

    def by_alternatives(self) -> Verdict | None:
        """Each side of what is said with `or`."""
        number = proved_by_alternatives(self.finer, self.known)
        return None if number is None else Proved(Evidence("facts", f"alternatives: {number}"))

    def by_solver(self, attempts: Sequence[ask.Attempt], *, nearby: bool = False) -> Verdict | None:
        """Z3 on the whole cone of influence; first, if wanted, on what is close by."""
        everything = self.known.cone(self.finer.symbols)
        near = self.known.near(self.finer.symbols) if nearby else everything
        verdict = self._asked(near, attempts[:1]) if len(near) < len(everything) else None
        return verdict or self._asked(everything, attempts)

    def _asked(self, cone: Sequence[Formula], attempts: Sequence[ask.Attempt]) -> Verdict | None:
        known, facts = self.known, self.facts
        found = ask.satisfy([*cone, self.finer.negation], known.bounds, facts.budget, facts.ledger, attempts)
        if found.answer is Answer.UNSAT:
            audit.note("z3", known, self.finer)
            return Proved(Evidence("z3", f"cone of {len(cone)} facts"))
        point = None if found.model is None else self._believed(found.model)
        return None if point is None else Refuted(public(point), Evidence("z3", "a model, confirmed by evaluation"))

    def by_exhaustion(self) -> Verdict:
        """Every point of a small box, if there is one."""
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
        """Of the symbols that occur; of all that bear on them; and of the user's, with everything as it was said."""
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
        """A point of the user's symbols at which the facts that can be evaluated hold, if the others may hold, too."""
        point = named(self.facts.known, candidate)
        return None if point is None else self.facts.add_point(point)

    def _believed(self, model: Mapping[str, int]) -> Point | None:
        """The candidate as a whole point, if all facts hold there and the formula does not.

        `known` may name more than they.
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


def truth(formula: Formula, facts: Facts, budget: Budget | None = None) -> Truth:
    """Does the formula always hold, never, or does it depend?

    >>> from shapeproof.constraints.syntax.text import parse_formula
    >>> from shapeproof.solver.facts import Facts
    >>> facts = Facts([parse_formula("h % 4 == 0"), parse_formula("h >= 8")])
    >>> truth(parse_formula("h == 1"), facts).always
    False
    """
    key = ("truth", formula, budget)
    answer: Truth | None = facts.answers.get(key)
    if answer is None:
        answer = facts.answers[key] = _truth(formula, facts, budget or facts.budget)
    facts.ledger.note(answer.evidence.step if answer.evidence else "none", answer.status)
    return answer


def _truth(formula: Formula, facts: Facts, budget: Budget) -> Truth:
    if facts.contradictory:
        return Truth(None, vacuous=True)
    try:
        with spending(budget) as left:
            return _by_sides(formula, facts, budget, left)
    except OutOfWork:
        charge(0)
        return Truth(None, undecided=True)


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
    if True not in sides and not formula.total:  # where it raises, neither it nor its negation holds
        verdict = _valid(conjunction(defined(formula), formula).negation, facts, left)
        sides |= {True: verdict.witness} if isinstance(verdict, Refuted) else {}
    settled = len(sides) == len({True, False})
    evidence = verdict.evidence or Evidence("evaluation", "two samples") if settled else None
    return Truth(None, sides.get(True), sides.get(False), evidence, undecided=not settled)


def _samples_by_side(formula: Formula, facts: Facts) -> dict[bool, Mapping[str, int]]:
    """A sample at which the formula holds, and one at which it does not, where there are such."""
    sides: dict[bool, Mapping[str, int]] = {}
    for point in facts.points(formula.symbols):
        side = true_at(formula, point)
        if side is not None and side not in sides:
            sides[side] = public(point)
    return sides


class _CallableModule(ModuleType):
    """`shapeproof.solver.prove` is this module once it is imported, and the function for whoever asks the package."""

    def __call__(
        self,
        text: str,
        bounds: Mapping[str, tuple[int | None, int | None]] | None = None,
        given: Sequence[str] = (),
        budget: Budget | None = None,
    ) -> Verdict:
        return prove(text, bounds, given, budget)


sys.modules[__name__].__class__ = _CallableModule
