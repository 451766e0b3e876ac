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

from typing import TYPE_CHECKING, Any

from shapeproof.constraints import polynomials
from shapeproof.constraints.formulas import Compare, Formula, Or, compare, ge, le
from shapeproof.constraints.meaning.intervals import Interval
from shapeproof.constraints.nodes import Node
from shapeproof.constraints.polynomials import UNIT, Monomial
from shapeproof.constraints.terms import Term, from_poly, symbol
from shapeproof.solver.history import BEGINNING, History
from shapeproof.solver.learned import entailment
from shapeproof.solver.learned.bounding import EVERYTHING, KnownBounds, shape_of
from shapeproof.solver.learned.layers import Index, Layered
from shapeproof.solver.learned.remainders import Remainder

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator

_ZERO = Interval(0, 0)


class Knowledge:
    """A mutable state; `copy` is cheap. Answers are remembered until the state changes."""

    __slots__ = (
        "_alternatives", "_bounds", "_defined_with", "_factors", "_mentioning", "_nonnegative", "_renaming",
        "_renaming_with", "_solved_with", "active", "cases", "coined", "contradiction", "definitions", "inequalities",
        "linear", "ranges", "remainders", "rules", "solved", "sources",
    )  # fmt: skip

    _OWN = frozenset({"_bounds", "_nonnegative", "coined", "contradiction", "sources"})

    def __init__(self) -> None:
        self.solved: Layered[str, Term] = Layered()
        self.definitions: Layered[str, Term] = Layered()
        self.ranges: Layered[str, Interval] = Layered()
        self.rules: Layered[Monomial, Term] = Layered()
        self.active: Layered[Formula, None] = Layered()
        self.linear: Layered[Term, Interval] = Layered()
        """Bounds of terms without their constant: what the active comparisons say, by term."""
        self.remainders: Layered[str, tuple[Remainder, ...]] = Layered()
        """Of a symbol, the divisions after which something was learned of what is left over; the coarsest first."""
        self.inequalities: Index[tuple[Monomial, bool], Term] = Index()
        """The same as terms that are at least 0, by each monomial in them and whether its coefficient is positive."""
        self._mentioning: Index[str, Formula] = Index()
        self._alternatives: Index[Formula, Formula] = Index()
        self._factors: Index[Node, Formula] = Index()
        self._solved_with: Index[str, str] = Index()
        self._defined_with: Index[str, str] = Index()
        self.coined: list[str] = []
        """The names that were made up since this was copied."""
        self._renaming: Index[Node, Monomial] = Index()
        self._renaming_with: Index[str, Monomial] = Index()
        self.contradiction = False
        self.sources = BEGINNING
        self.cases: Layered[Hashable, tuple[Knowledge, History]] = Layered()
        """What cases.py made of this state, or of one before it, by how it was split; with the facts of that state."""
        self.changed()

    def copy(self) -> Knowledge:
        """An independent state that says the same."""
        twin = Knowledge()
        for name in self._OWN.symmetric_difference(self.__slots__):
            setattr(twin, name, getattr(self, name).copy())
        twin.contradiction = self.contradiction
        twin.sources = self.sources
        twin.changed()
        return twin

    def changed(self) -> None:
        """Forget what was answered from the state as it was."""
        self._bounds = KnownBounds(self.ranges, self.linear)
        self._nonnegative: dict[Term, bool] = {}

    # names, solutions and renamings

    def define(self, name: str, meaning: Term) -> None:
        """From here on, the name stands for the term, which is one over the user's symbols."""
        if name not in self.definitions:
            self.definitions[name] = meaning
            self._defined_with.add(sorted(meaning.symbols), name)
            self.coined.append(name)

    def defined_with(self, names: Iterable[str]) -> list[str]:
        """The names made up for terms that mention any of these symbols."""
        return self._defined_with.among(names)

    def solve(self, name: str, value: Term) -> None:
        """The symbol is only a name for the value."""
        before = self.solved.get(name)
        if before is not None:
            self._solved_with.discard(sorted(before.symbols), name)
        self.solved[name] = value
        self._solved_with.add(sorted(value.symbols), name)

    def solved_with(self, names: Iterable[str]) -> list[str]:
        """The solved symbols whose values mention any of these."""
        return self._solved_with.among(names)

    def rename(self, left: Monomial, right: Term) -> None:
        """The product or atom is written otherwise."""
        if left in self.rules:
            self.unname(left)
        self.rules[left] = right
        self._renaming.add(_handle(left), left)
        self._renaming_with.add(_names(left, right), left)

    def unname(self, left: Monomial) -> Term:
        """Forget how a product or atom is written, which is returned."""
        right = self.rules.pop(left)
        self._renaming.discard(_handle(left), left)
        self._renaming_with.discard(_names(left, right), left)
        return right

    def renamed(self, monomial: Monomial) -> Iterable[Monomial]:
        """Products with another name that may divide the monomial."""
        return (left for atom, _ in monomial for left in self._renaming.of(atom))

    def renamed_with(self, names: Iterable[str]) -> list[Monomial]:
        """Products with another name, where either mentions any of these symbols."""
        return self._renaming_with.among(names)

    def note_remainder(self, remainder: Remainder) -> bool:
        """Something is known of the remainder; whether that is new."""
        before = self.remainders.get(remainder.name, ())
        if any(each.modulus == remainder.modulus for each in before):
            return False
        self.remainders[remainder.name] = tuple(sorted((*before, remainder), key=lambda each: -each.modulus))
        return True

    # bounds

    def range_of(self, name: str) -> Interval:
        """The interval of a symbol that is not solved."""
        found: Interval = self.ranges.get(name, EVERYTHING)
        return found

    def bounds(self, term: Term) -> Interval:
        """Sound bounds of a reduced term."""
        return self._bounds.of(term)

    def truth(self, formula: Formula) -> bool | None:
        """Whether a reduced formula is true or false wherever it has a value, as far as bounds say."""
        return self._bounds.truth(formula)

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

    # what remains

    def activate(self, formula: Formula) -> None:
        """Add a formula to those that remain."""
        if formula not in self.active:
            self.active[formula] = None
            for index, keys, item in self._filed(formula):
                index.add(keys, item)

    def retire(self, formula: Formula) -> None:
        """Take out an active formula, if it is one."""
        if formula in self.active:
            del self.active[formula]
            for index, keys, item in self._filed(formula):
                index.discard(keys, item)

    def _filed(self, formula: Formula) -> Iterator[tuple[Index[Any, Any], Iterable[Any], Node]]:
        """Where an active formula is found again."""
        yield self._mentioning, sorted(formula.symbols), formula
        for term in _nonnegative_terms(formula):
            yield self.inequalities, _keys(term), term
        match formula:
            case Or(args):
                yield self._alternatives, args, formula
            case Compare(_, term) if UNIT not in term.poly and term.poly:
                yield self._factors, (atom for atom, _ in polynomials.common_monomial(term.poly)), formula

    def mentioning(self, names: Iterable[str]) -> list[Formula]:
        """The active formulas about any of these symbols."""
        return self._mentioning.among(names)

    def with_alternative(self, formulas: Iterable[Formula]) -> list[Formula]:
        """The active disjunctions with any of these among their alternatives."""
        return self._alternatives.among(formulas)

    def with_factor(self, atom: Node) -> Iterable[Formula]:
        """The active comparisons of products all of which have the atom."""
        return self._factors.of(atom)

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
        within_reach = [each for each in self._about(symbols) if each.symbols <= symbols and _is_relation(each)]
        return [*within_reach, *self.range_formulas(sorted(symbols))]

    def cone(self, symbols: Iterable[str]) -> list[Formula]:
        """All that bears on these symbols, directly or through others: what else is known cannot matter to them."""
        reached, chosen, news = set(symbols), dict[Formula, None](), set(symbols)
        while news:
            found = [each for each in self._about(news) if each not in chosen]
            chosen |= dict.fromkeys(found)
            news = {name for each in found for name in each.symbols} - reached
            reached |= news
        return [*chosen, *self.range_formulas(sorted(reached))]

    def _about(self, names: Iterable[str]) -> list[Formula]:
        """What is known of any of these symbols beside solutions and ranges."""
        ordered = sorted(names)
        return [*self.mentioning(ordered), *map(self._equality, self.renamed_with(ordered))]

    def _equality(self, left: Monomial) -> Formula:
        return compare("==", from_poly({left: 1}) - self.rules[left])

    def remaining(self) -> list[Formula]:
        """All that is known beside solutions and ranges."""
        return [*self.active, *map(self._equality, self.rules)]

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


def _handle(monomial: Monomial) -> tuple[Node]:
    """The atom by which a product is looked up: of those that are in few products, by its depth, one."""
    return (max((atom for atom, _ in monomial), key=lambda atom: atom.key),)


def _names(left: Monomial, right: Term) -> list[str]:
    return sorted(right.symbols.union(*(atom.symbols for atom, _ in left)))


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
