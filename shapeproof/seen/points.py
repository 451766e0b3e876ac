"""Which joint points are kept of a stream: a sample by hash, and for each size a point with its least and its most.

The K points whose hashes are smallest are a sample that does not depend on order or repetition; nor do the extremes.
Law: `pruned(pruned(a) | b) == pruned(a | b)`.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Collection, Iterable

Point = tuple[int, ...]
Ranked = list[tuple[int, Point]]
"""Points with their hashes, in that order."""
Ends = tuple[Point, Point]
"""A point with the least value of a size, and one with the greatest."""

SAMPLE = 64
"""How many points the sample has."""


def digest(content: bytes) -> int:
    """A 64-bit hash that is the same in every process and on every machine."""
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "big")


def point_digest(point: Point) -> int:
    """The hash that decides whether a point is in the sample; the order of its numbers, which names decide, is no part.

    >>> point_digest((2, 3)) == point_digest((3, 2))
    True
    """
    numbers = sorted(point)
    try:
        return digest(struct.pack(f"<{len(numbers)}q", *numbers))
    except struct.error:  # a number of more than 64 bits
        return digest(repr(numbers).encode())


def ranked(points: Collection[Point]) -> Ranked:
    """The sample of points, in the order of their hashes."""
    return sorted((point_digest(point), point) for point in points)[:SAMPLE]


def joined(one: Ranked, other: Ranked) -> Ranked:
    """The sample of all points, from two samples."""
    return sorted({*one, *other})[:SAMPLE]


def ends(points: Collection[Point], column: int) -> Ends:
    """A point with the least number in a column, and one with the greatest; of several, the first in order."""
    return (
        min(points, key=lambda point: (point[column], point)),
        min(points, key=lambda point: (-point[column], point)),
    )


def farther(one: Ends, other: Ends, column: int) -> Ends:
    """The ends of all points, from two pairs of ends."""
    (low, high), (other_low, other_high) = one, other
    lower = (other_low[column], other_low) < (low[column], low)
    higher = (-other_high[column], other_high) < (-high[column], high)
    return other_low if lower else low, other_high if higher else high


def pruned(points: Collection[Point]) -> frozenset[Point]:
    """The points that are kept of these: at most K, and two for each size."""
    return kept(ranked(points), [ends(points, column) for column in range(len(next(iter(points))))])


def kept(sample: Ranked, outermost: Iterable[Ends]) -> frozenset[Point]:
    """The points of a sample, and of the ends of each size."""
    return frozenset(point for _, point in sample).union(*outermost)


def distinct(sample: Ranked, points: Collection[Point]) -> tuple[int, bool]:
    """The number of distinct points that these were kept from, and whether it is exact.

    A sample that is full gives an estimate, 1 in sqrt(K) off on average: hashes are spread evenly.

    >>> distinct(ranked([(1,), (2,)]), {(1,), (2,)})
    (2, True)
    """
    if len(sample) < SAMPLE:
        return len(sample), True
    return max(len(points), (SAMPLE - 1) * 2**64 // sample[-1][0]), False
