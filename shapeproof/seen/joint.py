"""What was seen of all calls of one kind: a join of single calls, in memory that does not grow with their number.

Nothing is counted: a count would make `seen | seen` another value, and merging the same profile twice a lie. How many
distinct points there were is estimated from the sample.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from shapeproof.seen.calls import Call, Kind, Strides, size_names
from shapeproof.seen.lattice import Lattice
from shapeproof.seen.plots import SeenSize
from shapeproof.seen.points import (
    Point,
    Ranked,
    distinct,
    ends,
    farther,
    joined,
    kept,
    point_digest,
    pruned,
    ranked,
)

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
        sample = joined(self._sample, other._sample)
        outermost = tuple(map(farther, self.ends, other.ends, range(len(self.ends))))
        both = Joint(
            self.lattice | other.lattice,
            kept(sample, outermost),
            tuple(map(_union, self.values, other.values)),
            tuple(map(_same, self.strides, other.strides)),
            tuple(map(_union, self.constants, other.constants)),
        )
        vars(both).update(_sample=sample, ends=outermost)  # as they would be found again from the points
        return both

    def __reduce__(self) -> tuple[Any, ...]:  # without what was found from the parts
        return Joint, (self.lattice, self.points, self.values, self.strides, self.constants)

    def shows(self, call: Call) -> bool:
        """Whether a call would change nothing. It is asked of every call: the looks that cost least come first."""
        point = call.point
        if self._last is None and point not in self.points:
            return False
        for known, number in zip(self.values, point, strict=True):
            if known is not None and number not in known:
                return False
        for texts, text in zip(self.constants, call.constants, strict=True):
            if texts is not None and text is not None and text not in texts:
                return False
        if self.strides != call.strides and tuple(map(_same, self.strides, call.strides)) != self.strides:
            return False
        return point in self.points or self._is_unremarkable(point)

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

    def _is_unremarkable(self, point: Point) -> bool:
        """Whether a point is on the lattice, and neither in the sample nor an extreme of a size that varied."""
        if self._last is None or (point_digest(point), point) <= self._last:
            return False
        columns, moving = self._varied
        for i in columns:
            low, high = self.bounds[i]
            if not (low < point[i] < high or farther(self.ends[i], (point, point), i) == self.ends[i]):
                return False
        return moving is None or [point[i] for i in columns] in moving

    @cached_property
    def _varied(self) -> tuple[list[int], Lattice | None]:
        """The sizes that varied, and the lattice of them, which is smaller than that of all; None: all are on it."""
        columns = [i for i, varies in enumerate(self.varying) if varies]
        moving = self.lattice.projected(columns)
        return columns, None if moving.is_everything() else moving

    @cached_property
    def _sample(self) -> Ranked:
        """The sample of points, with their hashes."""
        return ranked(self.points)

    @cached_property
    def _last(self) -> tuple[int, Point] | None:
        """The greatest hash in a sample that is full."""
        number, exact = self.distinct
        return None if exact or not number else self._sample[-1]

    @cached_property
    def ends(self) -> tuple[tuple[Point, Point], ...]:
        """For each size, a point with its least value and one with its greatest."""
        return tuple(ends(self.points, i) for i in range(len(self.lattice.base)))

    @cached_property
    def distinct(self) -> tuple[int, bool]:
        """How many distinct points were seen, and whether that is exact."""
        return distinct(self._sample, self.points)

    @cached_property
    def bounds(self) -> tuple[tuple[int, int], ...]:
        """The least and the greatest value of each size."""
        return tuple((low[i], high[i]) for i, (low, high) in enumerate(self.ends))

    @cached_property
    def varying(self) -> tuple[bool, ...]:
        """For each size, whether it had more than one value."""
        return tuple(low < high for low, high in self.bounds)

    def covers(self, point: Sequence[int]) -> bool:
        """Whether a point lies within the remembered bounds and on the lattice."""
        within = all(low <= number <= high for number, (low, high) in zip(point, self.bounds, strict=True))
        return within and point in self.lattice


def _union(one: frozenset[_T] | None, other: frozenset[_T] | None) -> frozenset[_T] | None:
    if one is None or other is None:
        return None
    both = one | other
    return both if len(both) <= MOST_VALUES else None


def _same(one: Strides, other: Strides) -> Strides:
    """The strides on which two agree, number by number."""
    if one is None or other is None:
        return None
    return tuple(a if a == b else None for a, b in zip(one, other, strict=True))


def seen_sizes(joints: Mapping[Kind, Joint]) -> list[SeenSize]:
    """The sizes that varied; of several kinds of calls, those of each."""
    return [
        SeenSize(name, tuple(sorted({point[column] for point in joint.points})))
        for kind, joint in joints.items()
        for column, name in enumerate(size_names(kind))
        if joint.varying[column]
    ]
