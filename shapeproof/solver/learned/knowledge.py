"""The consequences of a list of facts: solved symbols, ranges of the others, and the few formulas that remain.

    solved        symbol -> term over the free symbols                    h == 4*k
    definitions   name made up here -> the term that it denotes           k is h//4
    ranges        free symbol -> interval                                 5 <= k <= 256
    rules         product or atom -> a simpler term that it equals        u*s == 8*k
    active        formulas that the other tables do not express           a <= b, b != c, x == 1 or y == 1

Law: the tables together are equivalent to the facts: a point satisfies the facts exactly where it satisfies the tables.

This module stores the tables and answers small questions from them; learning.py adds to them. No step asks Z3.

Also asks if a sum of known inequalities implies another. A small, greedy, deterministic search without a solver.

To show `t >= 0`, subtract a known `g >= 0` that shares monomials with t, times a nonnegative factor, and repeat until
intervals suffice. So `hi - lo >= 0` follows from `mid - lo >= 0` and `hi - mid >= 0`. Besides the facts, each division,
min, max and rounded quotient contributes the inequalities of its definition. Law: True is a proof; False means unknown.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from functools import lru_cache
from itertools import islice, starmap
from typing import Any

from shapeproof.constraints import polynomials
from shapeproof.constraints.division import FloorDiv
from shapeproof.constraints.formulas import Compare, Formula, Or, compare, ge, le
from shapeproof.constraints.meaning.intervals import Interval
from shapeproof.constraints.nodes import MEMORY, Node
from shapeproof.constraints.polynomials import UNIT, Monomial
from shapeproof.constraints.terms import Apply, Extremum, Term, from_poly, of_atom, symbol
from shapeproof.constraints.work import charge
from shapeproof.solver.functions.axioms import axioms
from shapeproof.solver.history import BEGINNING, History
from shapeproof.solver.learned.bounding import EVERYTHING, KnownBounds, Remainder, shape_of
from shapeproof.solver.learned.index import Index

_ZERO = Interval(0, 0)
_MEMOS = {"reductions", "_nonnegative"}


class Knowledge:
    """A mutable state; `copy` is cheap. Answers are memoised until the state changes."""

    def __init__(self) -> None:
        self.solved: dict[str, Term] = {}
        self.definitions: dict[str, Term] = {}
        self.ranges: dict[str, Interval] = {}
        self.rules: dict[Monomial, Term] = {}
        self.active: dict[Formula, None] = {}
        self.linear: dict[Term, Interval] = {}
        """Shape (a term without its constant) -> the interval that the active comparisons give it."""
        self.remainders: dict[str, tuple[Remainder, ...]] = {}
        """Symbol -> its divisions with a fact about the remainder, the largest modulus first."""
        self.inequalities: Index[tuple[Monomial, bool], Term] = Index()
        """(Monomial, True if its coefficient is positive) -> the terms t with this part and an active fact `t >= 0`."""
        self.mentioning: Index[str, Formula] = Index()
        """Symbol -> the active formulas that mention it."""
        self.alternatives: Index[Formula, Formula] = Index()
        """Formula -> the active disjunctions of which it is an alternative."""
        self.factors: Index[Node, Formula] = Index()
        """Atom -> the active comparisons in which every monomial has it as a factor."""
        self.solved_with: Index[str, str] = Index()
        """Symbol -> the solved symbols whose values mention it."""
        self.defined_with: Index[str, str] = Index()
        """Symbol -> the made-up names whose terms mention it."""
        self.coined: list[str] = []
        """The names made up since this state was copied."""
        self._renaming: Index[Node, Monomial] = Index()
        self.renamed_with: Index[str, Monomial] = Index()
        """Symbol -> the left sides of the rules that mention it on either side."""
        self.contradiction = False
        self.sources = BEGINNING
        self.cases: dict[Hashable, tuple[Knowledge, History]] = {}
        """Memo of cases.py: how this or an earlier state was split -> the split knowledge, and that state's facts."""
        self.changed()

    def copy(self) -> Knowledge:
        """Return an independent state with the same content."""
        twin = Knowledge.__new__(Knowledge)
        for name, table in vars(self).items():
            if isinstance(table, dict | Index) and name not in _MEMOS:
                setattr(twin, name, table.copy())
        twin.coined = []
        twin.contradiction = self.contradiction
        twin.sources = self.sources
        twin.changed()
        twin.reductions = self.reductions
        return twin

    def changed(self) -> None:
        """Drop the memoised answers."""
        self._bounds = KnownBounds(self.ranges, self.linear)
        self._nonnegative: dict[Term, bool] = {}
        self.reductions: dict[Node, Any] = {}
        """The memo of reduction.py."""

    # names, solutions and renamings

    def define(self, name: str, meaning: Term) -> None:
        """Define a new name for a term over the user's symbols."""
        if name not in self.definitions:
            self.definitions[name] = meaning
            self.defined_with.add(sorted(meaning.symbols), name)
            self.coined.append(name)

    def solve(self, name: str, value: Term) -> None:
        """Make the symbol a name for the value."""
        before = self.solved.get(name)
        if before is not None:
            self.solved_with.discard(sorted(before.symbols), name)
        self.solved[name] = value
        self.solved_with.add(sorted(value.symbols), name)

    def rename(self, left: Monomial, right: Term) -> None:
        """Add the rule that the product or atom is written as `right`."""
        if left in self.rules:
            self.unname(left)
        self.rules[left] = right
        self._renaming.add(_handle(left), left)
        self.renamed_with.add(_names(left, right), left)

    def unname(self, left: Monomial) -> Term:
        """Remove the rule for a product or atom, and return its right side."""
        right = self.rules.pop(left)
        self._renaming.discard(_handle(left), left)
        self.renamed_with.discard(_names(left, right), left)
        return right

    def renamed(self, monomial: Monomial) -> Iterable[Monomial]:
        """The left sides of rules that may divide the monomial."""
        return (left for atom, _ in monomial for left in self._renaming.of(atom))

    def note_remainder(self, remainder: Remainder) -> bool:
        """Record that a fact about this remainder is known; return True if that is new."""
        before = self.remainders.get(remainder.name, ())
        if any(each.modulus == remainder.modulus for each in before):
            return False
        self.remainders[remainder.name] = tuple(sorted((*before, remainder), key=lambda each: -each.modulus))
        return True

    # bounds

    def range_of(self, name: str) -> Interval:
        """Return the interval of an unsolved symbol."""
        found: Interval = self.ranges.get(name, EVERYTHING)
        return found

    def bounds(self, term: Term) -> Interval:
        """Return sound bounds of a reduced term."""
        return self._bounds.of(term)

    def truth(self, formula: Formula) -> bool | None:
        """True or False if bounds show that a reduced formula has that value wherever it is defined; otherwise None."""
        return self._bounds.truth(formula)

    def sign(self, term: Term) -> int:
        """Return 1 or -1 if the reduced term is known to be positive or negative, else 0."""
        return self.bounds(term).sign

    def nonzero(self, term: Term) -> bool:
        """True if the reduced term is known to be nonzero."""
        return self.sign(term) != 0 or (UNIT not in term.poly and Compare("!=", shape_of(term)[0]) in self.active)

    def nonnegative(self, term: Term) -> bool:
        """True if the reduced term is known to be at least 0."""
        found = self._nonnegative.get(term)
        if found is None:
            shown = self.bounds(term).is_nonnegative or nonnegative(term, self)
            found = self._nonnegative[term] = shown
        return found

    # what remains

    def activate(self, formula: Formula) -> None:
        """Add an active formula, and index it."""
        if formula not in self.active:
            self.active[formula] = None
            for index, keys, item in self._filed(formula):
                index.add(keys, item)

    def retire(self, formula: Formula) -> None:
        """Remove a formula from the active ones, if it is there."""
        if formula in self.active:
            del self.active[formula]
            for index, keys, item in self._filed(formula):
                index.discard(keys, item)

    def _filed(self, formula: Formula) -> Iterator[tuple[Index[Any, Any], Iterable[Any], Node]]:
        """The indexes, keys and items under which an active formula is stored."""
        yield self.mentioning, sorted(formula.symbols), formula
        if isinstance(formula, Or):
            yield self.alternatives, formula.args, formula
        if isinstance(formula, Compare):
            term = formula.term
            for op, least in (("<=", -term), ("==", -term), ("==", term)):
                if op == formula.op:
                    yield self.inequalities, _keys(least), least
            if UNIT not in term.poly and term.poly:
                yield self.factors, (atom for atom, _ in polynomials.common_monomial(term.poly)), formula

    def verdict(self, formula: Compare) -> bool | None:
        """True or False if bounds and single facts settle a reduced comparison; otherwise None."""
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

    def cone(self, symbols: Iterable[str]) -> list[Formula]:
        """Return the cone of influence of these symbols: everything connected to them, directly or through others.

        The rest of the knowledge cannot affect them.
        """
        reached, chosen, news = set(symbols), dict[Formula, None](), set(symbols)
        while news:
            found = [each for each in self._about(news) if each not in chosen]
            chosen |= dict.fromkeys(found)
            news = {name for each in found for name in each.symbols} - reached
            reached |= news
        return [*chosen, *self.range_formulas(sorted(reached))]

    def _about(self, names: Iterable[str]) -> list[Formula]:
        """Return the active formulas and rules about any of these symbols."""
        ordered = sorted(names)
        rules = [(left, self.rules[left]) for left in self.renamed_with.among(ordered)]
        return [*self.mentioning.among(ordered), *starmap(equality, rules)]

    def remaining(self) -> list[Formula]:
        """Return everything that is known, except solutions and ranges."""
        return [*self.active, *starmap(equality, self.rules.items())]

    def range_formulas(self, names: Iterable[str]) -> list[Formula]:
        """Return the ranges of these symbols as formulas."""
        return [each for name in names for each in within(symbol(name), self.ranges.get(name, EVERYTHING))]


def _handle(monomial: Monomial) -> tuple[Node]:
    """Return the atom under which a product is indexed: the deepest, since deep atoms occur in few products."""
    return (max((atom for atom, _ in monomial), key=lambda atom: atom.key),)


def _names(left: Monomial, right: Term) -> list[str]:
    return sorted(right.symbols.union(*(atom.symbols for atom, _ in left)))


def _keys(term: Term) -> list[tuple[Monomial, bool]]:
    return [(monomial, coefficient > 0) for monomial, coefficient in term.monomials if monomial]


def equality(left: Monomial, right: Term) -> Formula:
    """Return a rule as the formula that the product or atom equals the right side."""
    return compare("==", from_poly({left: 1}) - right)


def within(term: Term, interval: Interval) -> list[Formula]:
    """Return the formulas that say that a term lies in an interval."""
    below = [] if interval.lower is None else [ge(term, interval.lower)]
    return below if interval.upper is None else [*below, le(term, interval.upper)]


_DEEPEST = 3
_MOST_TRIES = 16
_MOST_COMPOUND_TRIES = 6
_MOST_STEPS = 4
_MOST_MONOMIALS = 200
_MOST_CANDIDATES = 64
"""The most facts, the oldest first, that are tried for one monomial."""


def nonnegative(term: Term, known: Knowledge) -> bool:
    """True if `term >= 0` was shown from what is known."""
    tries = iter(range(_MOST_TRIES if term.key[0] == 0 else _MOST_COMPOUND_TRIES))
    return len(term.monomials) <= _MOST_MONOMIALS and _shown(term, known, _DEEPEST, tries)


def _shown(term: Term, known: Knowledge, depth: int, tries: Iterator[int]) -> bool:
    if known.bounds(term).is_nonnegative:
        return True
    if depth == 0:
        return False
    for fact, multiplier in _most_alike(term, known):
        if next(tries, None) is None:
            return False
        if _shown(term - fact * multiplier, known, depth - 1, tries):
            return True
    return False


def _most_alike(term: Term, known: Knowledge) -> list[tuple[Term, Term]]:
    """Return nonnegative known terms with a multiplier for each; those that cancel the most monomials come first."""
    charge(len(term.monomials))
    shared: dict[tuple[Term, Monomial, int], int] = {}
    for monomial, coefficient in term.monomials:
        for part, factor in _parts(monomial) if monomial else ():
            sign = _known_sign(from_poly({factor: 1}), known) if factor else 1
            for fact in _candidates(part, (coefficient > 0) == (sign > 0), known) if sign else ():
                charge(1)
                count, left = divmod(abs(coefficient), abs(fact.poly[part]))
                if not left:
                    step = (fact, factor, count * sign)
                    shared[step] = shared.get(step, 0) + 1
    ranked = sorted(
        shared, key=lambda step: (shared[step] < len(step[0].monomials), -shared[step], len(step[0].monomials))
    )
    return [(fact, from_poly({factor: scale})) for fact, factor, scale in ranked[:_MOST_STEPS]]


def _candidates(part: Monomial, positive: bool, known: Knowledge) -> Iterator[Term]:  # noqa: FBT001
    """Nonnegative known terms in which this monomial has this sign."""
    yield from islice(known.inequalities.of((part, positive)), _MOST_CANDIDATES)
    for atom, _ in part:
        for definition in _definition(atom, known):
            if part in definition.poly and (definition.poly[part] > 0) == positive:
                yield definition


def _definition(atom: Node, known: Knowledge) -> Iterator[Term]:
    """The nonnegative terms of an atom's definition."""
    match atom:
        case FloorDiv(_, divisor) if known.sign(divisor) > 0:
            yield from _remainder(atom)
        case Extremum():
            yield from _distances(atom)
        case Apply():
            yield from axioms(atom, known.bounds)


@lru_cache(maxsize=MEMORY)
def _remainder(atom: FloorDiv) -> tuple[Term, Term]:
    """Return `r` and `d - r - 1`, both nonnegative, for the remainder r of a division by a positive divisor d."""
    rest = atom.numerator - atom.divisor * of_atom(atom)
    return rest, atom.divisor - rest - 1


@lru_cache(maxsize=MEMORY)
def _distances(atom: Extremum) -> tuple[Term, ...]:
    """Return the nonnegative distances of the arguments from the min or max."""
    return tuple(atom.sense * (arg - of_atom(atom)) for arg in atom.args)


def _known_sign(multiplier: Term, known: Knowledge) -> int:
    """Return 1 or -1 if the term is known to be `>= 0` or `<= 0`, else 0."""
    interval = known.bounds(multiplier)
    return 1 if interval.is_nonnegative else -1 if (-interval).is_nonnegative else 0


def _parts(monomial: Monomial) -> Iterator[tuple[Monomial, Monomial]]:
    """The factorisations of a monomial: the whole and nothing, and the rest and one of its atoms."""
    yield monomial, ()
    if sum(exponent for _, exponent in monomial) > 1:
        for atom, _ in monomial:
            rest = polynomials.over(monomial, ((atom, 1),))
            if rest:
                yield rest, ((atom, 1),)
