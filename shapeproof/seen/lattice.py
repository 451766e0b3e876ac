"""The least affine lattice that holds every point seen: all linear equalities and multiples that are true of them.

A lattice is `base + integer combinations of rows` (Granger's congruences). `rows` is in Hermite normal form, and `base`
is reduced by them, so that equal lattices are equal values. `|` is the least lattice that holds both: commutative,
associative, idempotent. The memory is d*d numbers for points of d numbers, however many points there were.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Vector = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Lattice:
    """An affine lattice in canonical form.

    >>> lattice = Lattice((3, 6)) | Lattice((5, 10)) | Lattice((9, 18))
    >>> lattice, (7, 14) in lattice, (7, 15) in lattice
    (Lattice(base=(1, 2), rows=((2, 4),)), True, False)
    """

    base: Vector
    rows: tuple[Vector, ...] = ()

    @property
    def rank(self) -> int:
        """How many directions the points vary in: `rank + 1` points determine the equalities."""
        return len(self.rows)

    def __contains__(self, point: Sequence[int]) -> bool:
        return not any(reduced(_difference(point, self.base), self.rows))

    def __or__(self, other: Lattice) -> Lattice:
        rows = self.rows
        for vector in (*other.rows, _difference(other.base, self.base)):
            rows = inserted(rows, vector)
        return Lattice(reduced(self.base, rows), rows)

    def projected(self, columns: Sequence[int]) -> Lattice:
        """The least lattice of the points cut down to some of their numbers."""
        rows = spanned(tuple(row[i] for i in columns) for row in self.rows)
        return Lattice(reduced([self.base[i] for i in columns], rows), rows)

    def is_everything(self) -> bool:
        """Whether every point is on it: the normal form of that is the unit matrix."""
        return self.rank == len(self.base) and all(row[i] == 1 for i, row in enumerate(self.rows))

    def is_canonical(self) -> bool:
        """Whether this is the form in which `|` leaves a lattice."""
        return spanned(self.rows) == self.rows and reduced(self.base, self.rows) == self.base


def pivot(row: Sequence[int]) -> int:
    """The first column in which a row is not 0; the number of columns if there is none."""
    return next((i for i, value in enumerate(row) if value), len(row))


def reduced(vector: Sequence[int], rows: Iterable[Vector]) -> Vector:
    """The representative of a vector modulo rows in normal form: `0 <= v[c] < row[c]` at each pivot c."""
    left = tuple(vector)
    for row in rows:
        column = pivot(row)
        quotient = left[column] // row[column]
        if quotient:
            left = tuple([a - quotient * b for a, b in zip(left, row, strict=True)])
    return left


def spanned(vectors: Iterable[Vector]) -> tuple[Vector, ...]:
    """The normal form of the lattice that vectors span."""
    rows: tuple[Vector, ...] = ()
    for vector in vectors:
        rows = inserted(rows, vector)
    return rows


def inserted(rows: tuple[Vector, ...], vector: Vector) -> tuple[Vector, ...]:
    """The normal form of the lattice that rows in normal form and one more vector span."""
    by_pivot = {pivot(row): row for row in rows}
    left = reduced(vector, rows)
    if not any(left):
        return rows
    while any(left):
        column = pivot(left)
        row = by_pivot.get(column)
        if row is None:
            by_pivot[column] = left if left[column] > 0 else tuple(-value for value in left)
            break
        divisor, s, t = _bezout(row[column], left[column])
        a, b = row[column] // divisor, left[column] // divisor
        by_pivot[column] = tuple(s * x + t * y for x, y in zip(row, left, strict=True))
        left = tuple(a * y - b * x for x, y in zip(row, left, strict=True))
    echelon = [by_pivot[column] for column in sorted(by_pivot)]
    for index in reversed(range(len(echelon))):
        echelon[index] = reduced(echelon[index], echelon[index + 1 :])
    return tuple(echelon)


def _difference(left: Sequence[int], right: Sequence[int]) -> Vector:
    return tuple(map(operator.sub, left, right))


def _bezout(a: int, b: int) -> tuple[int, int, int]:
    """`(g, s, t)` with `g == gcd(a, b) == s*a + t*b` and g > 0.

    >>> _bezout(4, -6)
    (2, -1, -1)
    """
    (old, new), (s, next_s), (t, next_t) = (a, b), (1, 0), (0, 1)
    while new:
        quotient = old // new
        old, new = new, old - quotient * new
        s, next_s = next_s, s - quotient * next_s
        t, next_t = next_t, t - quotient * next_t
    return (old, s, t) if old > 0 else (-old, -s, -t)
