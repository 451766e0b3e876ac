"""A shorter wording of a condition on one quantity: the intervals where it holds, or the holes between its bounds.

Where n is at least 0, `n == 0 or n == 2 or n >= 3` is `n != 1`; `a - b <= 0 and a - b != 0` is `a < b` anywhere. A
quantity is a term that is compared with integers: one size, or a sum of products. A wording is a proposal; the caller
proves that it is equivalent.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence

from shapeproof.constraints import operators
from shapeproof.constraints.atoms import Extremum, Max
from shapeproof.constraints.division import FloorDiv
from shapeproof.constraints.formulas import (
    FALSE,
    And,
    Compare,
    Formula,
    Or,
    compare,
    conjunction,
    disjunction,
    eq,
    ge,
    le,
    ne,
    real_compare,
)
from shapeproof.constraints.meaning.evaluate import true_at
from shapeproof.constraints.meaning.intervals import Interval
from shapeproof.constraints.nodes import Node, postorder
from shapeproof.constraints.polynomials import UNIT
from shapeproof.constraints.reals import Real, RealConstant
from shapeproof.constraints.terms import Term, from_poly, symbol
from shapeproof.solver.learned.bounding import shape_of


def reworded(formula: Formula, bounds: Callable[[Term], Interval]) -> Formula:
    """Return the formula with operands on the same quantity merged, where that is shorter.

    >>> from shapeproof.constraints.syntax.text import parse_formula
    >>> reworded(parse_formula("(n == 0 or n == 2 or n >= 3) and m >= 8 and m >= 3"), lambda _: Interval(0, None))
    n != 1 and m >= 8
    >>> reworded(parse_formula("n <= 0"), lambda _: Interval(0, None))
    n == 0
    """
    match formula:
        case And(args):
            return conjunction(*_said_together(args, conjunction, bounds))
        case Or(args):
            return disjunction(*_said_together(args, disjunction, bounds))
        case Compare("<=") if (quantity := _quantity(formula)) is not None:
            values = [run.single for run in _runs(formula, bounds(quantity))[0]]
            equal = [eq(quantity, value) for value in values if value is not None and len(values) == 1]
            return min([*equal, formula], key=lambda each: len(str(each)))
        case _:
            return formula


def by_operand(formula: Formula) -> Iterator[Formula]:
    """Yield a wording for each operand of each min or max that a comparison adds up: that operand is the extremum.

    >>> from shapeproof.constraints.syntax.text import parse_formula
    >>> list(by_operand(parse_formula("n == min(n, k)")))
    [k <= n and k == n, n <= k]
    """
    if not isinstance(formula, Compare):
        return
    for monomial, times in formula.term.monomials:
        match monomial:
            case ((Extremum(args) as extremum, 1),):
                rest = formula.term - times * from_poly({monomial: 1})
                ordered = le if extremum.sense > 0 else ge
                for one in args:
                    among = (ordered(one, other) for other in args if other is not one)
                    yield conjunction(*among, compare(formula.op, rest + times * one))


def by_size(formula: Formula, bounds: Callable[[Term], Interval]) -> Iterator[Formula]:
    """Yield a wording of a formula that computes with one size, as a proposal read off small sizes.

    >>> from shapeproof.constraints.syntax.text import parse_formula
    >>> list(by_size(parse_formula("(n//2 - 1)//((n + 1)//2) == 0"), lambda _: Interval(0, None)))
    [n >= 2, n >= 2]
    >>> list(by_size(parse_formula("(2*n + 4) % 5 == 1"), lambda _: Interval(0, None)))[-1]
    n % 5 == 1
    """
    if len(formula.symbols) != 1 or not any(isinstance(node, FloorDiv | Real) for node in postorder(formula)):
        return
    (name,) = formula.symbols
    within = bounds(symbol(name))
    if within.lower is None:
        return
    last = within.lower + _SMALL_SIZES if within.upper is None else min(within.upper, within.lower + _SMALL_SIZES)
    holding = [size for size in range(within.lower, last + 1) if true_at(formula, {name: size}) is True]
    yield from _worded(symbol(name), _alike(range(within.lower, last + 1), holding.__contains__, within), within)
    steps = {after - before for before, after in itertools.pairwise(holding)}
    if len(steps) == 1 and (step := steps.pop()) > 1:
        yield eq(symbol(name) % step, holding[0] % step)


_SMALL_SIZES = 32
"""The sizes above the least that a wording is read off."""


def equals(number: Term | Real, value: float) -> Formula:
    """Return the formula `number == value`; for nan, the formula that the number is nan.

    >>> from shapeproof.constraints.reals import RealSymbol
    >>> equals(RealSymbol("v"), float("nan"))
    real(v) != real(v)
    """
    if isinstance(number, Term):
        return eq(number, int(value))
    return real_compare("!=", number, number) if math.isnan(value) else real_compare("==", number, RealConstant(value))


def has_value(number: Term | Real, value: float) -> Formula:
    """Return the formula `number == value`; for an integer quotient by a constant, as bounds of the numerator.

    If a constant is the least possible value of the term, return the condition on the other operand of the max.

    >>> from shapeproof.constraints.syntax.text import parse_term
    >>> has_value(parse_term("n - 1"), 3), has_value(parse_term("(n + 7)//8"), 3)
    (n == 4, n >= 17 and n <= 24)
    >>> has_value(parse_term("max(n, 0)"), 3), has_value(parse_term("max(n, 0)"), 0)
    (n == 3, n <= 0)
    """
    if isinstance(number, Real):
        return equals(number, value)
    value = int(value)
    match number.monomials:
        case ((((Max((one, other)), 1),), 1),) if one.is_constant or other.is_constant:
            least, rest = (one.constant_value, other) if one.is_constant else (other.constant_value, one)
            return has_value(rest, value) if value > least else le(rest, least) if value == least else FALSE
    for monomial, sign in number.monomials:
        match monomial:
            case ((FloorDiv(numerator, divisor), 1),) if divisor.is_constant and sign in {1, -1}:
                rest, size = number - sign * from_poly({monomial: 1}), divisor.constant_value
                if rest.symbols <= numerator.symbols:
                    above = numerator - sign * size * (value - rest)
                    return conjunction(ge(above, 0), le(above, size - 1))
    return eq(number, value)


def _said_together(
    args: Sequence[Formula], join: Callable[..., Formula], bounds: Callable[[Term], Interval]
) -> Iterator[Formula]:
    """The operands, with all operands on the same quantity merged into one at the place of the first."""
    quantities = [_quantity(arg) for arg in args]
    for index, quantity in enumerate(quantities):
        if quantity is None:
            yield args[index]
        elif quantity not in quantities[:index]:
            alike = join(*(arg for arg, each in zip(args, quantities, strict=True) if each is quantity))
            within = bounds(quantity)
            yield min(alike, *_worded(quantity, _runs(alike, within), within), key=lambda each: len(str(each)))


def _quantity(formula: Formula) -> Term | None:
    """Return the term that every comparison in the formula compares with an integer; None if there are several."""
    found = set()
    for node in postorder(formula):
        match node:
            case Compare(_, term) if term.total and term.symbols:
                found.add(shape_of(term)[0])
            case Formula() if not isinstance(node, And | Or):
                return None
    return found.pop() if len(found) == 1 else None


def _worded(quantity: Term, found: tuple[list[Interval], list[Interval]], within: Interval) -> Iterator[Formula]:
    """Two equivalents of a formula about a quantity in an interval: by runs where it holds, and by holes."""
    runs, holes = found
    yield disjunction(*(_inside(quantity, run, within) for run in runs))
    yield conjunction(*(_outside(quantity, hole, within) for hole in holes))


def _runs(formula: Formula, within: Interval) -> tuple[list[Interval], list[Interval]]:
    """Return the longest intervals of the quantity in which the formula holds, and those in which it fails."""
    near = {root + step for root in _roots(formula) for step in (-1, 0, 1) if root + step in within}
    tried = sorted(near.union(end for end in (within.lower, within.upper) if end is not None))
    return _alike(tried, lambda value: _holds(formula, value), within)


def _alike(
    tried: Sequence[int], truth: Callable[[int], bool], within: Interval
) -> tuple[list[Interval], list[Interval]]:
    found: dict[bool, list[Interval]] = {True: [], False: []}
    for holds, group in itertools.groupby(tried, truth):
        values = list(group)
        lower = within.lower if values[0] == tried[0] else values[0]
        upper = within.upper if values[-1] == tried[-1] else values[-1]
        found[holds].append(Interval(lower, upper))
    return found[True], found[False]


def _roots(formula: Formula) -> Iterator[int]:
    """Values next to which comparisons may change their truth; between these, no comparison changes."""
    for node in postorder(formula):
        if isinstance(node, Compare):
            yield -node.term.poly.get(UNIT, 0) // shape_of(node.term)[1]


def _holds(formula: Formula, value: int) -> bool:
    known: dict[Node, bool] = {}
    for node in postorder(formula):
        match node:
            case Compare(op, term):
                known[node] = operators.COMPARISONS[op](shape_of(term)[1] * value + term.poly.get(UNIT, 0), 0)
            case And(args):
                known[node] = all(known[arg] for arg in args)
            case Or(args):
                known[node] = any(known[arg] for arg in args)
    return known[formula]


def _inside(quantity: Term, run: Interval, within: Interval) -> Formula:
    if run.single is not None:
        return eq(quantity, run.single)
    below = [] if run.lower == within.lower or run.lower is None else [ge(quantity, run.lower)]
    above = [] if run.upper == within.upper or run.upper is None else [le(quantity, run.upper)]
    return conjunction(*below, *above)


def _outside(quantity: Term, hole: Interval, within: Interval) -> Formula:
    below = FALSE if hole.lower == within.lower or hole.lower is None else le(quantity, hole.lower - 1)
    above = FALSE if hole.upper == within.upper or hole.upper is None else ge(quantity, hole.upper + 1)
    if hole.single is not None and FALSE not in (below, above):
        return ne(quantity, hole.single)
    return disjunction(below, above)
