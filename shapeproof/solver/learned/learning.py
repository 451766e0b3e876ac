"""How a fact becomes knowledge: it is split up, solved or moved into bounds, and then simplifies the earlier facts.

Law: each step replaces the facts by equivalent ones, so that learning neither loses nor assumes anything. A fact that
becomes neither a solution nor a range remains an active formula.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import starmap

from shapeproof.constraints import polynomials
from shapeproof.constraints.formulas import FALSE, TRUE, And, Compare, Formula, Or, compare, ge, le
from shapeproof.constraints.meaning.intervals import Interval, hull
from shapeproof.constraints.polynomials import UNIT, Monomial
from shapeproof.constraints.records.domain import ranges
from shapeproof.constraints.terms import Extremum, FloorDiv, Term, floor_div, from_poly, modulo, symbol, symbol_in
from shapeproof.solver.learned import audit
from shapeproof.solver.learned.bounding import EVERYTHING, as_interval, plainly, remainder_in, shape_of, shaved, term_of
from shapeproof.solver.learned.equalities import Solution, named_term, solve
from shapeproof.solver.learned.knowledge import Knowledge, equality, within
from shapeproof.solver.learned.reduction import Expression, Reducer

_MOST_ROUNDS = 8
_MOST_STEPS = 4096
_MOST_BITS = 4096
"""Bounds with more bits are not inferred."""


def absorb(known: Knowledge, formulas: Iterable[Formula]) -> Knowledge:
    """Return a copy of the knowledge with facts added."""
    news = tuple(formulas)
    richer = known.copy()
    for formula in news:
        richer.sources = richer.sources.then(formula)
    _Learner(richer).learn(news)
    return richer


def split(known: Knowledge, name: str, modulus: int) -> Knowledge:
    """Return equivalent knowledge with an unsolved symbol written `modulus*q + r`, with new names for q and r."""
    richer = known.copy()
    _Learner(richer).split(name, modulus)
    return richer


class _Learner:
    """One batch of facts that is being learned."""

    def __init__(self, known: Knowledge) -> None:
        self._known = known
        self._queue: deque[Formula] = deque()
        self._bounds: deque[Formula] = deque()  # inferred bounds, to be recorded although they are implied
        self._moved: set[str] = set()
        self._restated: set[str] = set()  # symbols whose divisions are now written differently
        self._unequal: set[Formula] = set()  # disequalities whose related facts were revisited already
        self._touched: dict[Formula, None] = {}

    def learn(self, formulas: Iterable[Formula]) -> None:
        self._queue.extend(formulas)
        self._drain()
        for _ in range(_MOST_ROUNDS):
            if not (self._moved or self._touched) or self._known.contradiction:
                break
            moved, self._moved = self._moved, set()
            touched, self._touched = self._touched, {}
            names = sorted(moved)
            self._rewrite_values(sorted(self._restated))
            self._restated.clear()
            for formula in dict.fromkeys([*self._known.mentioning.among(names), *touched]):
                self._revisit(formula)
            self._queue.extend(self._tried_again(names))
            self._drain()
        self._known.changed()

    def split(self, name: str, modulus: int) -> None:
        known, size = self._known, symbol(name)
        quotient, rest = floor_div(size, modulus), modulo(size, modulus)
        parts = []
        for part, interval in ((quotient, known.bounds(quotient)), (rest, Interval(0, modulus - 1))):
            part_name, definition = named_term(part, known.definitions)
            known.define(part_name, definition)
            self._queue.extend(within(symbol(part_name), interval))
            parts.append(symbol(part_name))
        self._drain()
        if not known.contradiction:
            self._substitute(name, modulus * parts[0] + parts[1])
            self.learn(())

    def _drain(self) -> None:
        for _ in range(_MOST_STEPS):
            if self._known.contradiction or not (self._queue or self._bounds):
                return
            if self._bounds:
                self._write_down(self._bounds.popleft())
            else:
                self._take(self._reduced(self._queue.popleft()))
        while self._queue:  # too many steps: keep the remaining facts as they are
            self._known.activate(self._reduced(self._queue.popleft()))

    def _reduced(self, expression: Expression) -> Expression:
        return Reducer(self._known).reduce(expression)

    def _take(self, formula: Formula) -> None:
        known = self._known
        if formula is TRUE or formula in known.active:
            return
        audit.note("learned", known, formula)
        if formula is FALSE:
            known.contradiction = True
            return
        self._bounds.extend(shaved(formula, known))
        match formula:
            case And(args):
                self._queue.extendleft(reversed(args))
            case Or(args):
                self._keep(formula)
                self._common_bounds(args)
            case Compare("==", term):
                self._equal(formula, term)
            case Compare("<=", term):
                self._at_most(formula, term)
            case Compare("!=", term):
                self._differs(formula, term)
            case _:
                self._keep(formula)

    def _write_down(self, bound: Formula) -> None:
        """Record an implied bound of one symbol or atom directly; reduction would drop it as implied."""
        match bound:
            case Compare("<=", term) if any(value.bit_length() > _MOST_BITS for value in term.poly.values()):
                return  # `x << x < x` implies larger and larger bounds
            case Compare("<=", term) if not term.symbols.isdisjoint(self._known.solved):
                self._queue.append(bound)
            case Compare("<=", term):
                audit.note("inferred", self._known, bound)
                self._at_most(bound, term)

    # what is kept as it is

    def _keep(self, formula: Formula) -> None:
        self._known.activate(formula)
        match formula:
            case Compare(op, term) if op != "!=":
                self._enter_bound(op, term, formula)
        self._known.changed()

    def _enter_bound(self, op: str, term: Term, formula: Formula) -> None:
        """Record `shape in interval`, and retire a weaker active bound of the same shape."""
        known = self._known
        shape, interval = as_interval(op, term)
        before = known.linear.get(shape, EVERYTHING)
        known.linear[shape] = before & interval
        if known.linear[shape].is_empty:
            known.contradiction = True
        for end in (Interval(before.lower, None), Interval(None, before.upper)):
            for weaker in within(shape, end) if interval & end == interval else ():
                if weaker is not formula:
                    known.retire(weaker)

    def _drop(self, formula: Formula) -> None:
        """Remove an active formula from the state."""
        known = self._known
        known.retire(formula)
        match formula:
            case Compare(op, term) if op != "!=":
                shape, interval = as_interval(op, term)
                before = known.linear.get(shape, EVERYTHING)
                left = Interval(
                    None if interval.lower is not None else before.lower,
                    None if interval.upper is not None else before.upper,
                )
                known.linear.pop(shape, None)
                if left != EVERYTHING:
                    known.linear[shape] = left
        self._known.changed()

    def _revisit(self, formula: Formula) -> None:
        """Learn an active formula again."""
        if formula in self._known.active:
            self._drop(formula)
            self._queue.append(formula)
            self._drain()

    # equalities

    def _equal(self, formula: Formula, term: Term) -> None:
        known = self._known
        solution = solve(term, known)
        if solution is None:
            self._keep(formula)
            self._spread(term)
            self._spread(-term)
            return
        for name, definition in solution.definitions:
            known.define(name, definition)
            self._queue.extend(within(symbol(name), known.bounds(definition)))
        if solution.symbol is None:
            self._rename(solution)
        else:
            self._substitute(solution.symbol, solution.right)
        if not known.contradiction:
            self._queue.append(formula)

    def _substitute(self, name: str, value: Term) -> None:
        """Solve the symbol: from here on, it is a name for the value."""
        known = self._known
        audit.note_equal("solution", known, symbol(name), value)
        constraint = within(symbol(name), known.ranges.pop(name, EVERYTHING))
        touched = known.mentioning.among([name])
        for formula in touched:
            self._drop(formula)
        known.solve(name, value)
        renamed = starmap(equality, self._taken_back([name], right=True))
        self._known.changed()
        self._rewrite_values([name])
        self._queue.extend([*constraint, *touched, *renamed])

    def _rewrite_values(self, names: Sequence[str]) -> None:
        """Rewrite values and right sides of rules that mention these symbols, until nothing changes."""
        known = self._known
        for _ in range(_MOST_ROUNDS):
            rights = {left: known.rules[left] for left in known.renamed_with.among(names)}
            rewritten = {left: self._reduced(right) for left, right in rights.items()}
            for left, right in rewritten.items():
                known.rename(left, right)
            self._known.changed()
            if rewritten == rights:
                break
        for name in known.solved_with.among(names):
            known.solve(name, self._reduced(known.solved[name]))
        self._known.changed()

    def _tried_again(self, names: Sequence[str]) -> Iterator[Formula]:
        """Yield what to learn now that more is known about these symbols: bounds of rules, and equalities of others.

        A rule that its equality still leads to is kept: the active formulas are already written by it.
        """
        known = self._known
        for left, right in self._taken_back(names, right=False):
            again = equality(left, right)
            reduced = self._reduced(again)
            solution = solve(reduced.term, known) if reduced is again and isinstance(reduced, Compare) else None
            same = solution == Solution(left, right)
            if same:
                bounds = known.bounds(from_poly({left: 1}))
                known.rename(left, right)
                self._known.changed()
            yield from within(right, bounds) if same else [again]

    def _taken_back(self, names: Sequence[str], *, right: bool) -> list[tuple[Monomial, Term]]:
        """Remove the rules about these symbols, since more may be known about their factors now, and return them.

        With `right`, also those with such a symbol on the right: the value of a solved symbol may restore the left.
        """
        known = self._known
        stale = [
            left
            for left in known.renamed_with.among(names)
            if right or any(not atom.symbols.isdisjoint(names) for atom, _ in left)
        ]
        rules = [(left, known.unname(left)) for left in stale]
        if stale:
            self._known.changed()
        return rules

    def _rename(self, solution: Solution) -> None:
        """Add a rule: from here on, the product or atom is written as the right side."""
        known = self._known
        left = solution.left
        product, names = from_poly({left: 1}), frozenset().union(*(atom.symbols for atom, _ in left))
        audit.note_equal("renaming", known, product, solution.right)
        bounds = known.bounds(product)
        touched = [each for each in known.mentioning.among(sorted(names)) if names <= each.symbols]
        for each in touched:
            self._drop(each)
        known.rename(left, solution.right)
        self._known.changed()
        self._rewrite_values(sorted(names))
        self._queue.extend([*touched, *within(solution.right, bounds)])

    # inequalities

    def _at_most(self, formula: Formula, term: Term) -> None:
        known = self._known
        name = _single_symbol(term)
        if name is not None:
            self._bound_symbol(name, as_interval("<=", term)[1])
            return
        opened = self._opened(term)
        if opened is not None:
            self._queue.extendleft(reversed(opened))
            return
        if known.nonnegative(term):  # term <= 0 <= term
            self._queue.append(compare("==", term))
            return
        plainer = self._left_over(term)
        if plainer is not None:
            self._queue.extend(plainer)
            return
        self._keep(formula)
        self._spread(term)

    def _left_over(self, term: Term) -> list[Formula] | None:
        """Return `term <= 0` restated for the plain remainder `h % m`, if it is a fact about a remainder.

        A remainder that cannot be restated is recorded in the knowledge.
        """
        shape, interval = as_interval("<=", term)
        remainder = remainder_in(shape)
        if remainder is None:
            return None
        plainer = plainly(remainder, self._known.bounds(shape) & interval)
        if plainer is None and self._known.note_remainder(remainder):
            self._moved.add(remainder.name)
            self._restated.add(remainder.name)
        return plainer

    def _opened(self, term: Term) -> list[Formula] | None:
        """Return an equivalent of `term <= 0` for the arguments of a min, max or division, if there is one."""
        for monomial, coefficient in term.monomials:
            match monomial:
                case ((Extremum(args) as atom, 1),) if coefficient * atom.sense < 0:
                    rest = from_poly(polynomials.add(term.poly, {monomial: -coefficient}))
                    return [compare("<=", rest + coefficient * arg) for arg in args]
                case ((FloorDiv(numerator, divisor), 1),) if coefficient in (1, -1) and self._known.sign(divisor) > 0:
                    rest = from_poly(polynomials.add(term.poly, {monomial: -coefficient}))
                    if rest.is_constant:
                        lowest = divisor * rest - numerator
                        return [compare("<=", lowest if coefficient < 0 else numerator + divisor * rest - divisor + 1)]
        return None

    def _bound_symbol(self, name: str, interval: Interval) -> None:
        known = self._known
        before = known.range_of(name)
        after = before & interval
        if after == before:
            return
        known.ranges[name] = after
        self._moved.add(name)
        self._known.changed()
        if after.is_empty:
            known.contradiction = True
        elif after.single is not None:
            self._substitute(name, from_poly({UNIT: after.single}))

    def _spread(self, term: Term) -> None:
        """Infer from `term <= 0` a bound for each of its monomials, given bounds of the others."""
        known = self._known
        lows = {
            monomial: known.bounds(from_poly({monomial: coefficient})).lower for monomial, coefficient in term.monomials
        }
        unbounded = [monomial for monomial, low in lows.items() if low is None]
        if len(unbounded) > 1:
            return
        total = sum(low for low in lows.values() if low is not None)
        for monomial in unbounded or [each for each in lows if each]:
            room = -(total - (lows[monomial] or 0))
            self._bound_monomial(monomial, term.poly[monomial], room)

    def _bound_monomial(self, monomial: Monomial, coefficient: int, room: int) -> None:
        """Infer a bound from `coefficient * monomial <= room`."""
        product = from_poly({monomial: 1})
        limit = room // coefficient if coefficient > 0 else -(room // -coefficient)
        interval = Interval(None, limit) if coefficient > 0 else Interval(limit, None)
        before = self._known.bounds(product)
        if len(monomial) > 1 or monomial[0][1] > 1:
            self._bound_factors(monomial, before & interval)
        elif before & interval != before:
            self._bounds.extend(within(product, interval))

    def _bound_factors(self, monomial: Monomial, interval: Interval) -> None:
        """Infer bounds of the factors from a bound of their product, where the other factors are not negative."""
        for atom, exponent in monomial:
            others = self._known.bounds(from_poly({polynomials.over(monomial, ((atom, exponent),)) or (): 1}))
            if exponent > 1 or others.lower is None or others.lower < 0:
                continue
            if interval.upper is not None and interval.upper >= 0 and others.lower > 0:
                self._bounds.append(le(term_of(atom), interval.upper // others.lower))
            if interval.lower is not None and interval.lower > 0:
                self._bounds.append(
                    ge(term_of(atom), 1 if others.upper is None else -(-interval.lower // others.upper))
                )

    # the rest

    def _differs(self, formula: Formula, term: Term) -> None:
        known = self._known
        if known.nonnegative(term):
            self._queue.append(ge(term, 1))
        elif known.nonnegative(-term):
            self._queue.append(le(term, -1))
        else:
            self._keep(formula)
            if len(term.monomials) == 1 and len(factors := term.monomials[0][0]) > 1:
                self._queue.extend(compare("!=", term_of(atom)) for atom, _ in factors)
            if formula not in self._unequal:
                self._unequal.add(formula)
                self._send_for(formula, term)

    def _send_for(self, formula: Formula, term: Term) -> None:
        """Revisit the facts that a new disequality concerns.

        These are disjunctions that contain it, and products that contain its atoms as factors.
        """
        known = self._known
        self._touched.update(dict.fromkeys(known.alternatives.among([formula, formula.negation])))
        monomials = shape_of(term)[0].monomials
        if UNIT not in term.poly and len(monomials) == 1:
            for atom, _ in monomials[0][0]:
                self._touched.update((each, None) for each in known.factors.of(atom) if each is not formula)
                self._queue.extend(starmap(equality, self._taken_back(sorted(atom.symbols), right=False)))

    def _common_bounds(self, args: tuple[Formula, ...]) -> None:
        """Bound each symbol that every alternative bounds by the hull of those bounds."""
        boxes = [ranges([arg]) for arg in args]
        for name in sorted(set.intersection(*(set(box) for box in boxes))):
            self._bounds.extend(within(symbol(name), hull(box[name] for box in boxes)))


def _single_symbol(term: Term) -> str | None:
    parts = [monomial for monomial in term.poly if monomial]
    return symbol_in(parts[0]) if len(parts) == 1 else None
