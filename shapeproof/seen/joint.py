"""What was seen of all calls of one kind: a join of single calls, in memory that does not grow with their number.

Nothing is counted: a count would make `seen | seen` another value, and merging the same profile twice a lie. How many
distinct points there were is estimated from the sample.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from shapeproof.seen.calls import Call, Kind, Strides
from shapeproof.seen.lattice import Lattice
from shapeproof.seen.points import Point, distinct, ends, point_digest, pruned, sampled

_T = TypeVar("_T")
MOST_VALUES = 64
"""How many values of one size are kept; of a size with more, only its bounds."""

Values = frozenset[int] | None
Texts = frozenset[str] | None


@dataclass(frozen=True)
class Joint:
    """What calls of one kind have in common: their lattice, the points kept of them, and what each input was."""

    lattice: Lattice
    points: frozenset[Point]
    """A sample, and for each size a point with its least value and one with its greatest."""
    values: tuple[Values, ...]
    """The values of each size; None where there were more than 64."""
    strides: tuple[Strides, ...]
    """For each input: its strides, None where they varied or where it has none."""
    constants: tuple[Texts, ...]
    """For each input what it was, as texts (a constant: its values; a tensor: its layouts); None: more than 64."""

    @classmethod
    def of(cls, call: Call) -> Joint:
        """What one call shows."""
        said = tuple(frozenset[str]() if each is None else frozenset((each,)) for each in call.constants)
        values = tuple(frozenset((number,)) for number in call.point)
        return cls(Lattice(call.point), frozenset((call.point,)), values, call.strides, said)

    def __or__(self, other: Joint) -> Joint:
        return Joint(
            self.lattice | other.lattice,
            pruned(self.points | other.points),
            tuple(map(_union, self.values, other.values)),
            tuple(map(_same, self.strides, other.strides)),
            tuple(map(_union, self.constants, other.constants)),
        )

    def shows(self, call: Call) -> bool:
        """Whether a call would change nothing."""
        point = call.point
        return (
            all(point[i] in values for i, values in self._listed)
            and (point in self.points or (self._is_on_lattice(point) and self._unremarkable(point)))
            and all(map(_agrees, self.strides, call.strides))
            and all(call.constants[i] is None or call.constants[i] in texts for i, texts in self._said)
        )

    def renamed(self, kind: Kind, names: Sequence[str]) -> tuple[Kind, Joint]:
        """The same for positional arguments under names: the slots in another order, and so the numbers."""
        pairs = sorted((slot.renamed(names), index) for index, slot in enumerate(kind))
        starts = list(itertools.accumulate((len(slot.sizes) for slot in kind), initial=0))
        columns = [starts[index] + place for slot, index in pairs for place in range(len(slot.sizes))]
        moved = Joint(
            self.lattice.projected(columns),
            pruned({tuple(point[i] for i in columns) for point in self.points}),
            tuple(self.values[i] for i in columns),
            tuple(self.strides[index] for _, index in pairs),
            tuple(self.constants[index] for _, index in pairs),
        )
        return tuple(slot for slot, _ in pairs), moved

    @cached_property
    def _said(self) -> list[tuple[int, frozenset[str]]]:
        """The inputs whose texts are all kept."""
        return [(i, texts) for i, texts in enumerate(self.constants) if texts is not None]

    def _is_on_lattice(self, point: Point) -> bool:
        """As `in`, the sizes that never varied first: they are most of them."""
        columns, fixed, moving = self._parts
        return all(point[i] == value for i, value in fixed) and [point[i] for i in columns] in moving

    @cached_property
    def _parts(self) -> tuple[list[int], list[tuple[int, int]], Lattice]:
        """The sizes that varied, those that did not with their values, and the lattice of the former."""
        columns = [i for i, varies in enumerate(self.varying) if varies]
        fixed = [(i, low) for i, (low, high) in enumerate(self.bounds) if low == high]
        return columns, fixed, self.lattice.projected(columns)

    def _unremarkable(self, point: Point) -> bool:
        """Whether a point on the lattice is neither in the sample nor an extreme. What never varied is no matter."""
        return (
            self._last is not None
            and all(low[i] < point[i] < high[i] or self._is_beaten(point, i) for i, low, high in self._moving)
            and (point_digest(point), point) > self._last
        )

    def _is_beaten(self, point: Point, column: int) -> bool:
        """Whether a point is not kept for its value of a size."""
        low, high = self.ends[column]
        i = column
        return (low[i], low) <= (point[i], point) and (-high[i], high) <= (-point[i], point)

    @cached_property
    def _moving(self) -> list[tuple[int, Point, Point]]:
        """The sizes that varied, with a point of the least and of the greatest value."""
        return [(i, low, high) for i, (low, high) in enumerate(self.ends) if low[i] < high[i]]

    @cached_property
    def _listed(self) -> list[tuple[int, frozenset[int]]]:
        """The sizes whose values are all kept."""
        return [(i, values) for i, values in enumerate(self.values) if values is not None]

    @cached_property
    def _last(self) -> tuple[int, Point] | None:
        """The greatest hash in a sample that is full."""
        number, exact = self.distinct
        if exact or not number:
            return None
        last = sampled(self.points)[-1]
        return point_digest(last), last

    @cached_property
    def ends(self) -> tuple[tuple[Point, Point], ...]:
        """For each size, a point with its least value and one with its greatest."""
        return tuple(ends(self.points, i) for i in range(len(self.lattice.base)))

    @cached_property
    def distinct(self) -> tuple[int, bool]:
        """How many distinct points were seen, and whether that is exact."""
        return distinct(self.points)

    @cached_property
    def bounds(self) -> tuple[tuple[int, int], ...]:
        """The least and the greatest value of each size."""
        return tuple((low[i], high[i]) for i, (low, high) in enumerate(self.ends))

    @property
    def varying(self) -> tuple[bool, ...]:
        """For each size, whether it had more than one value."""
        return tuple(low < high for low, high in self.bounds)

    def covers(self, point: Sequence[int]) -> bool:
        """Whether a point lies within the bounds and on the lattice: like what was seen, as far as is remembered."""
        within = all(low <= number <= high for number, (low, high) in zip(point, self.bounds, strict=True))
        return within and point in self.lattice


def _union(one: frozenset[_T] | None, other: frozenset[_T] | None) -> frozenset[_T] | None:
    if one is None or other is None:
        return None
    both = one | other
    return both if len(both) <= MOST_VALUES else None


def _agrees(known: Strides, given: Strides) -> bool:
    """Whether strides would leave what is known of them."""
    if known is None or known == given:
        return True
    return given is not None and all(a is None or a == b for a, b in zip(known, given, strict=True))


def _same(one: Strides, other: Strides) -> Strides:
    """The strides on which two agree, number by number."""
    if one is None or other is None:
        return None
    return tuple(a if a == b else None for a, b in zip(one, other, strict=True))
