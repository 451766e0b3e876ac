"""Which joint points are kept of a stream: a sample by hash, and for each size a point with its least and its most.

The K points whose hashes are smallest are a sample that does not depend on order or repetition; nor do the extremes.
Law: `pruned(pruned(a) | b) == pruned(a | b)`.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Collection

Point = tuple[int, ...]

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


def sampled(points: Collection[Point]) -> list[Point]:
    """The sample of points, in the order of their hashes."""
    return sorted(points, key=lambda point: (point_digest(point), point))[:SAMPLE]


def ends(points: Collection[Point], column: int) -> tuple[Point, Point]:
    """A point with the least number in a column, and one with the greatest; of several, the first in order."""
    return (
        min(points, key=lambda point: (point[column], point)),
        min(points, key=lambda point: (-point[column], point)),
    )


def pruned(points: Collection[Point]) -> frozenset[Point]:
    """The points that are kept of these: at most K, and two for each size."""
    kept = set(sampled(points))
    for column in range(len(next(iter(points)))):
        kept.update(ends(points, column))
    return frozenset(kept)


def distinct(points: Collection[Point]) -> tuple[int, bool]:
    """How many distinct points there were of which these were kept, and whether the number is exact.

    A sample that is full gives an estimate, 1 in sqrt(K) off on average: hashes are spread evenly.

    >>> distinct({(1,), (2,)})
    (2, True)
    """
    sample = sampled(points)
    if len(sample) < SAMPLE:
        return len(sample), True
    return max(len(points), (SAMPLE - 1) * 2**64 // point_digest(sample[-1])), False
