"""Searches the sizes to pad to: the least waste for a number of buckets, or the fewest buckets for a waste.

One dim is solved exactly, by dynamic programming or greedily from below; several dims by branch and bound. All numbers
are integers, so no comparison rounds. A plan says whether it is the best; the caller checks that it covers every point.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

Point = tuple[int, ...]
MOST_STEPS = 1_000_000
"""How many looks at a point and a corner branch and bound may take, before its best plan is given as it is."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Corners, each a bucket for every point that it dominates, and whether no other plan is better."""

    corners: tuple[Point, ...]
    best: bool


def dominates(corner: Point, point: Point) -> bool:
    """True if a point can be padded to a corner.

    >>> dominates((8, 64), (8, 37)), dominates((8, 64), (9, 37))
    (True, False)
    """
    return all(map(int.__le__, point, corner))


# ---------------------------------------------------------------------- one dim


def least_waste(weights: Sequence[int], costs: Sequence[int], at_most: int) -> list[int]:
    """Return the indices of at most this many sizes to pad to, with the least sum of `weight * cost of the bucket`.

    The costs do not fall. Law: `best[b][j] = min over i of best[b-1][i-1] + weight(i..j) * cost(j)`; the last bucket's
    first size i does not fall as j rises, since weights are not negative and costs do not fall. O(k m log m).

    >>> least_waste([1, 1, 1, 9], [1, 2, 3, 8], 2)
    [2, 3]
    """
    total = [0]
    for weight in weights:
        total.append(total[-1] + weight)
    count = len(weights)
    best = [total[j + 1] * costs[j] for j in range(count)]
    starts: list[list[int]] = [[0] * count]
    for _ in range(min(at_most, count) - 1):
        best, first = _one_more(best, total, costs)
        starts.append(first)
    return _ends(starts, count - 1)


def _one_more(best: Sequence[int], total: Sequence[int], costs: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the least sums with one more bucket, and the start of its last bucket; a bucket may stay unused."""
    count = len(best)
    sums, first = list(best), [-1] * count
    waiting = [(0, count - 1, 0, count - 1)]
    while waiting:
        low, high, least, most = waiting.pop()
        if low > high:
            continue
        j = (low + high) // 2
        options = [
            (best[i - 1] if i else 0) + (total[j + 1] - total[i]) * costs[j] for i in range(least, min(j, most) + 1)
        ]
        value = min(options)
        at = least + options.index(value)
        if value < sums[j]:
            sums[j], first[j] = value, at
        waiting += [(low, j - 1, least, at), (j + 1, high, at, most)]
    return sums, first


def _ends(starts: Sequence[Sequence[int]], last: int) -> list[int]:
    """Return the buckets of the last plan; a start of -1 means that the plan with one bucket less is as good."""
    found: list[int] = []
    for level in reversed(starts):
        if level[last] >= 0 and last >= 0:
            found.append(last)
            last = level[last] - 1
    return found[::-1]


def fewest(costs: Sequence[int], ratio: Fraction) -> list[int]:
    """Return the indices of the fewest sizes to pad to such that no size is padded to more than `ratio` times its cost.

    The costs do not fall. From below, each bucket lies as far up as its first size allows: no plan's n-th is higher.

    >>> fewest([1, 2, 3, 4, 5, 6, 7, 8], Fraction(2))
    [1, 5, 7]
    """
    found: list[int] = []
    first = 0
    for index in range(1, len(costs) + 1):
        if index == len(costs) or costs[index] > ratio * costs[first]:
            found.append(index - 1)
            first = index
    return found


# ---------------------------------------------------------------------- several dims


@dataclass
class Search:
    """Branch and bound over corners that one may pad to, each with its cost.

    Each point counts by its weight; `own` is what it costs as it is.
    """

    points: Sequence[Point]
    weights: Sequence[int]
    own: Sequence[int]
    corners: Sequence[Point]
    cost: Mapping[Point, int]

    def __post_init__(self) -> None:
        self.left = MOST_STEPS
        self.serving = [
            sorted((c for c, corner in enumerate(self.corners) if dominates(corner, point)), key=self._cost_of)
            for point in self.points
        ]

    def _cost_of(self, index: int) -> int:
        return self.cost[self.corners[index]]

    def _plan(self, chosen: Sequence[int]) -> Plan:
        return Plan(tuple(sorted(self.corners[each] for each in chosen)), self.left > 0)

    # -- the least sum for a number of corners

    def least_waste(self, at_most: int) -> Plan | None:
        """Return at most this many corners with the least sum of weight times cost; None if none was found."""
        self._incumbent = self._greedy(at_most)
        self._least = None if self._incumbent is None else self._sum(set(self._incumbent))
        self._split(frozenset(), frozenset(range(len(self.corners))), at_most)
        return None if self._incumbent is None else self._plan(sorted(self._incumbent))

    def _sum(self, allowed: set[int] | frozenset[int]) -> int | None:
        """Return the sum if every point goes to its cheapest allowed corner: exact for a plan, a lower bound before."""
        self.left -= len(self.points)
        total = 0
        for weight, serving in zip(self.weights, self.serving, strict=True):
            first = next((c for c in serving if c in allowed), None)
            if first is None:
                return None
            total += weight * self._cost_of(first)
        return total

    def _greedy(self, at_most: int) -> frozenset[int] | None:
        """Start with every point's cheapest corner, and repeatedly drop the corner whose loss costs least."""
        chosen = set().union(*({serving[0]} for serving in self.serving if serving)) if all(self.serving) else set()
        while len(chosen) > at_most:
            options = [(total, each) for each in sorted(chosen) if (total := self._sum(chosen - {each})) is not None]
            if not options:
                return None
            chosen.remove(min(options)[1])
        return frozenset(chosen) or None

    def _split(self, chosen: frozenset[int], open_: frozenset[int], at_most: int) -> None:
        if self.left <= 0:
            return
        bound = self._sum(chosen | open_)
        if bound is None or (self._least is not None and bound >= self._least):
            return
        wanted = {next(c for c in serving if c in chosen or c in open_) for serving in self.serving}
        if len(wanted) <= at_most:
            self._incumbent, self._least = frozenset(wanted), bound
            return
        undecided = wanted - chosen
        if len(chosen) == at_most or not undecided:
            if len(chosen) == at_most and open_:
                self._split(chosen, frozenset(), at_most)
            return
        each = max(undecided, key=self._cost_of)
        self._split(chosen | {each}, open_ - {each}, at_most)
        self._split(chosen, open_ - {each}, at_most)

    # -- the fewest corners for a waste

    def fewest(self, ratio: Fraction) -> Plan | None:
        """Return the fewest corners such that each point has one of at most `ratio` times its cost, or None."""
        allowed = [ratio * own for own in self.own]
        covers = [
            sum(1 << p for p, point in enumerate(self.points) if dominates(c, point) and self.cost[c] <= allowed[p])
            for c in self.corners
        ]
        self._all = (1 << len(self.points)) - 1
        if functools.reduce(operator.or_, covers, 0) != self._all:
            return None
        self._fewest = self._greedy_cover(covers)
        self._cover(covers, (), 0)
        return self._plan(self._fewest)

    def _greedy_cover(self, covers: Sequence[int]) -> tuple[int, ...]:
        covered, chosen = 0, list[int]()
        while covered != self._all:
            each = max(range(len(covers)), key=lambda c: (covers[c] & ~covered).bit_count())
            chosen.append(each)
            covered |= covers[each]
        return tuple(chosen)

    def _cover(self, covers: Sequence[int], chosen: tuple[int, ...], covered: int) -> None:
        self.left -= len(covers)
        if self.left <= 0:
            return
        open_ = self._all & ~covered
        if not open_:
            self._fewest = min(self._fewest, chosen, key=len)
            return
        most = max((cover & open_).bit_count() for cover in covers)
        if len(chosen) - (-open_.bit_count() // most) >= len(self._fewest):
            return
        point = min(_bits(open_), key=lambda p: sum(cover >> p & 1 for cover in covers))
        options = [c for c, cover in enumerate(covers) if cover >> point & 1]
        for each in sorted(options, key=lambda c: -(covers[c] & open_).bit_count()):
            self._cover(covers, (*chosen, each), covered | covers[each])


def _bits(mask: int) -> list[int]:
    return [index for index in range(mask.bit_length()) if mask >> index & 1]
