"""What a list of facts amounts to: symbols solved, ranges of the rest, and the few formulas that remain.

    solved        symbol -> term over the symbols that are left           h == 4*k
    definitions   name made up here -> what it stands for                 k is h//4
    ranges        symbol that is left -> interval                          5 <= k <= 256
    rules         product or atom -> a simpler term that it equals         u*s == 8*k
    active        formulas that all this does not say yet                  a <= b, b != c, x == 1 or y == 1

Together they say neither more nor less than the facts: a point satisfies the facts just where it satisfies these.
This module holds them and answers small questions from them; learning.py adds to them. It never asks Z3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shapeproof.constraints.formulas import Compare, Formula, compare, ge, le
from shapeproof.constraints.intervals import Interval
from shapeproof.constraints.polynomials import UNIT, Monomial
from shapeproof.constraints.terms import Term, from_poly, symbol
from shapeproof.solver import entailment
from shapeproof.solver.bounding import EVERYTHING, KnownBounds, shape_of
from shapeproof.solver.history import BEGINNING, History

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

_ZERO = Interval(0, 0)


class Knowledge:
    """A mutable state; `copy` is cheap. Answers are remembered until the state changes."""

    __slots__ = (
        "_bounds", "_nonnegative", "active", "cases", "contradiction", "definitions", "inequalities", "linear",
        "ranges", "rules", "solved", "sources",
    )  # fmt: skip

    def __init__(self) -> None:
        self.solved: dict[str, Term] = {}
        self.definitions: dict[str, Term] = {}
        self.ranges: dict[str, Interval] = {}
        self.rules: dict[Monomial, Term] = {}
        self.active: dict[Formula, None] = {}
        self.linear: dict[Term, Interval] = {}
        """Bounds of terms without their constant: what the active comparisons say, by term."""
        self.inequalities: dict[tuple[Monomial, bool], tuple[Term, ...]] = {}
        """The same as terms that are at least 0, by each monomial in them and whether its coefficient is positive."""
        self.contradiction = False
        self.sources = BEGINNING
        self.cases: dict[Hashable, tuple[Knowledge, History]] = {}
        """What cases.py made of this state, or of one before it, by how it was split; with the facts of that state."""
        self.changed()

    def copy(self) -> Knowledge:
        """An independent state that says the same."""
        twin = Knowledge()
        for name in ("solved", "definitions", "ranges", "rules", "active", "linear", "inequalities", "cases"):
            setattr(twin, name, dict(getattr(self, name)))
        twin.contradiction = self.contradiction
        twin.sources = self.sources
        twin.changed()
        return twin

    def changed(self) -> None:
        """Forget what was answered from the state as it was."""
        self._bounds = KnownBounds(self.ranges, self.linear)
        self._nonnegative: dict[Term, bool] = {}

    def range_of(self, name: str) -> Interval:
        """The interval of a symbol that is not solved."""
        return self.ranges.get(name, EVERYTHING)

    def bounds(self, term: Term) -> Interval:
        """Sound bounds of a reduced term."""
        return self._bounds.of(term)

    def sign(self, term: Term) -> int:
        """1 or -1 where the reduced term is known to be positive or negative, else 0."""
        known = self.bounds(term)
        if known.lower is not None and known.lower > 0:
            return 1
        return -1 if known.upper is not None and known.upper < 0 else 0

    def nonzero(self, term: Term) -> bool:
        """Whether the reduced term is known not to be 0."""
        return self.sign(term) != 0 or (UNIT not in term.poly and Compare("!=", shape_of(term)[0]) in self.active)

    def nonnegative(self, term: Term) -> bool:
        """Whether the reduced term is known to be at least 0."""
        found = self._nonnegative.get(term)
        if found is None:
            lower = self.bounds(term).lower
            found = self._nonnegative[term] = (lower is not None and lower >= 0) or entailment.nonnegative(term, self)
        return found

    def activate(self, formula: Formula) -> None:
        """Add a formula to those that remain."""
        self.active[formula] = None
        for term in _nonnegative_terms(formula):
            for key in _keys(term):
                self.inequalities[key] = (*self.inequalities.get(key, ()), term)

    def retire(self, formula: Formula) -> None:
        """Take out an active formula, if it is one."""
        if formula in self.active:
            del self.active[formula]
            for term in _nonnegative_terms(formula):
                for key in _keys(term):
                    self.inequalities[key] = tuple(each for each in self.inequalities[key] if each is not term)

    def verdict(self, formula: Compare) -> bool | None:
        """Whether a reduced comparison always holds or never does, as far as bounds and single facts say."""
        term = formula.term
        if formula in self.active:
            return True
        if formula.op != "<=" and formula.negation in self.active:
            return False
        if formula.op == "<=":
            if self.nonnegative(-term):
                return True
            return False if self.nonnegative(term - 1) else None
        known = self.bounds(term)
        if known == _ZERO:
            return formula.op == "=="
        if 0 not in known or self.nonnegative(term - 1) or self.nonnegative(-term - 1):
            return formula.op == "!="
        return None

    def near(self, symbols: frozenset[str]) -> list[Formula]:
        """Inequalities and equalities over these symbols alone, and their ranges: often enough, and few."""
        within_reach = [each for each in self.remaining() if each.symbols <= symbols and _is_relation(each)]
        return [*within_reach, *self.range_formulas(sorted(symbols))]

    def cone(self, symbols: Iterable[str]) -> list[Formula]:
        """All that bears on these symbols, directly or through others: what else is known cannot matter to them."""
        reached, chosen, left = set(symbols), [], self.remaining()
        while left:
            touching = [each for each in left if not reached.isdisjoint(each.symbols)]
            left = [each for each in left if reached.isdisjoint(each.symbols)]
            if not touching:
                break
            chosen += touching
            reached.update(*(each.symbols for each in touching))
        return [*chosen, *self.range_formulas(sorted(reached))]

    def remaining(self) -> list[Formula]:
        """All that is known beside solutions and ranges."""
        return [*self.active, *(compare("==", from_poly({left: 1}) - right) for left, right in self.rules.items())]

    def range_formulas(self, names: Iterable[str]) -> list[Formula]:
        """The ranges of these symbols as formulas."""
        formulas = []
        for name in names:
            formulas.extend(within(name, self.ranges.get(name, EVERYTHING)))
        return formulas


def _nonnegative_terms(formula: Formula) -> list[Term]:
    """What an equality or inequality says is not negative."""
    match formula:
        case Compare("<=", term):
            return [-term]
        case Compare("==", term):
            return [term, -term]
        case _:
            return []


def _is_relation(formula: Formula) -> bool:
    return isinstance(formula, Compare) and formula.op != "!="


def _keys(term: Term) -> list[tuple[Monomial, bool]]:
    return [(monomial, coefficient > 0) for monomial, coefficient in term.monomials if monomial]


def within(name: str, interval: Interval) -> list[Formula]:
    """The interval of a symbol as formulas."""
    formulas = []
    if interval.lower is not None:
        formulas.append(ge(symbol(name), interval.lower))
    if interval.upper is not None:
        formulas.append(le(symbol(name), interval.upper))
    return formulas
