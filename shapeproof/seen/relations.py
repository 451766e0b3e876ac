"""The relations that are true of all points seen, as formulas, and how many points speak for each.

Together they say what the lattice says: each size that varies is a multiple, or affine in earlier ones, or in a joint
congruence. A relation over lattice rank r is determined by r + 1 points; only further ones are evidence. If it did not
hold, a further point would keep it by chance once in `odds` times: that is the stated risk. Samples never prove.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.terms import Term, constant, modulo, symbol, total
from shapeproof.seen.joint import Joint
from shapeproof.seen.lattice import pivot

Rational = tuple[list[int], int, int]
"""Integer coefficients of earlier sizes, a constant, and the factor of the size: `factor*size == sum + constant`."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation that was true of every point."""

    formula: Formula
    witnesses: int
    """Distinct points (of its sizes) among those kept: at least so many were seen."""
    determined_by: int
    """How many points determine it."""
    odds: int
    """A point that had nothing to do with the relation would keep it once in this many times."""

    @property
    def extra(self) -> int:
        """Witnesses beyond those that determine the relation."""
        return max(self.witnesses - self.determined_by, 0)

    @property
    def risk(self) -> Fraction:
        """The chance that all further witnesses keep it by accident."""
        return Fraction(1, self.odds**self.extra)


def relations(joint: Joint, names: Sequence[str]) -> list[Relation]:
    """All relations of the sizes that varied: multiples, then equalities, then joint congruences.

    >>> from shapeproof.seen.calls import Call
    >>> first, *others = [Joint.of(Call((), (n, 2 * n), (), ())) for n in (8, 16, 40, 64)]
    >>> for other in others: first |= other
    >>> [(str(each.formula), each.extra) for each in relations(first, ("a", "b"))]
    [('a % 8 == 0', 2), ('b % 16 == 0', 2), ('b == 2*a', 2)]
    """
    found = [*_multiples(joint, names), *_equalities(joint, names), *_congruences(joint, names)]
    return list({each.formula: each for each in found if not isinstance(each.formula, f.BooleanConstant)}.values())


def step(joint: Joint, column: int) -> tuple[int, int]:
    """The greatest g and the r with `size % g == r` for every value of a size that varied.

    >>> from shapeproof.seen.calls import Call
    >>> step(Joint.of(Call((), (3,), (), ())) | Joint.of(Call((), (11,), (), ())), 0)
    (8, 3)
    """
    divisor = math.gcd(*(row[column] for row in joint.lattice.rows))
    return divisor, joint.lattice.base[column] % divisor


def affine(joint: Joint, earlier: int, column: int) -> tuple[int, int] | None:
    """The `(a, c)` with `size == a*earlier + c` in integers for every point, of two sizes that varied.

    >>> from shapeproof.seen.calls import Call
    >>> affine(Joint.of(Call((), (3, 7), (), ())) | Joint.of(Call((), (5, 11), (), ())), 0, 1)
    (2, 1)
    """
    if not _proportional(joint, earlier, column):
        return None
    (factor,), offset, divisor = _affine(joint, [earlier], column)
    return (factor, offset) if divisor == 1 else None


def witnesses(joint: Joint, columns: Sequence[int]) -> int:
    """How many distinct points of some of the sizes are among those kept."""
    return len({tuple(point[i] for i in columns) for point in joint.points})


def _of(joint: Joint, formula: Formula, columns: Sequence[int], odds: int) -> Relation:
    rank = joint.lattice.projected(columns).rank
    return Relation(formula, witnesses(joint, columns), rank + 1, odds)


def _multiples(joint: Joint, names: Sequence[str]) -> Iterator[Relation]:
    for i, varies in enumerate(joint.varying):
        if varies and (found := step(joint, i))[0] > 1:
            divisor, rest = found
            yield _of(joint, f.eq(modulo(symbol(names[i]), divisor), rest), [i], divisor)


def _equalities(joint: Joint, names: Sequence[str]) -> Iterator[Relation]:
    """One for each size that others determine: one other where that is enough, else all that are free."""
    free = [pivot(row) for row in joint.lattice.rows]
    for column, varies in enumerate(joint.varying):
        if not varies or column in free:
            continue
        others = next(([i] for i in range(column) if joint.varying[i] and _proportional(joint, i, column)), free)
        coefficients, offset, factor = _affine(joint, others, column)
        used = [i for i, value in zip(others, coefficients, strict=True) if value]
        right = _sum([value for value in coefficients if value], [names[i] for i in used], offset)
        low, high = joint.bounds[column]
        yield _of(joint, f.eq(symbol(names[column]) * factor, right), [*used, column], high - low + 1)


def _proportional(joint: Joint, one: int, other: int) -> bool:
    """Whether one column of the lattice is a multiple of another."""
    rows = joint.lattice.rows
    first = next(row for row in rows if row[one])
    return all(row[one] * first[other] == row[other] * first[one] for row in rows)


def _affine(joint: Joint, others: Sequence[int], column: int) -> Rational:
    """A size as an affine combination of others, which determine it: all that are free, or one proportional to it."""
    rows, base = joint.lattice.rows, joint.lattice.base
    if len(others) < len(rows):
        rows = (next(row for row in rows if row[others[0]]),)
    parts = _solved(rows, others, [row[column] for row in rows])
    factor = math.lcm(*(part.denominator for part in parts))
    coefficients = [int(part * factor) for part in parts]
    offset = factor * base[column] - sum(value * base[i] for value, i in zip(coefficients, others, strict=True))
    return coefficients, offset, factor


def _solved(rows: Sequence[Sequence[int]], columns: Sequence[int], wanted: Sequence[int]) -> list[Fraction]:
    """The x with `rows @ x == wanted` in these columns, in which the rows are upper triangular: from below."""
    found: dict[int, Fraction] = {}
    for row, column, goal in reversed(list(zip(rows, columns, wanted, strict=True))):
        found[column] = (goal - sum(row[other] * value for other, value in found.items())) / Fraction(row[column])
    return [found[column] for column in columns]


def _congruences(joint: Joint, names: Sequence[str]) -> Iterator[Relation]:
    """The conditions on the free sizes: `(point - base) @ inverse(H)` is integer, H being the rows at their pivots."""
    rows, base = joint.lattice.rows, joint.lattice.base
    free = [pivot(row) for row in rows]
    for index in range(len(free)):
        parts = _solved(rows, free, [int(i == index) for i in range(len(free))])
        divisor = math.lcm(*(part.denominator for part in parts))
        coefficients = [int(part * divisor) % divisor for part in parts]
        used = [i for i, value in zip(free, coefficients, strict=True) if value]
        if divisor == 1 or len(used) < 2:  # a single size's multiples are said already
            continue
        values = [value for value in coefficients if value]
        rest = sum(value * base[i] for value, i in zip(values, used, strict=True)) % divisor
        term = _sum(values, [names[i] for i in used], 0)
        yield _of(joint, f.eq(modulo(term, divisor), rest), used, divisor)


def _sum(coefficients: Sequence[int], names: Sequence[str], offset: int) -> Term:
    parts = [symbol(name) * value for value, name in zip(coefficients, names, strict=True)]
    return total([*parts, constant(offset)])
