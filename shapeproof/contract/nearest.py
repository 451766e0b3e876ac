"""The nearest value of a symbol at which a contract accepts, with the other symbols fixed.

The contract tests every candidate. Candidates start at the symbol's bounds, so that a value far outside the bounds
takes no longer than a near one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

from shapeproof.constraints.meaning.intervals import Interval

MOST = 4096
"""The number of candidates: greater than any multiple that users declare."""


def nearest_value(given: int, bounds: Interval, accepted: Callable[[int], bool]) -> int | None:
    """Return the accepted value nearest to the given one, the smaller of two equally near; None if none was found.

    >>> nearest_value(37, Interval(2, 64), lambda size: size % 8 == 0)
    40
    >>> nearest_value(1000, Interval(2, 64), lambda size: size % 8 == 0)
    64
    """
    candidates = itertools.islice(_outwards(given, bounds), MOST)
    return next((size for size in candidates if accepted(size)), None)


def _outwards(given: int, bounds: Interval) -> Iterator[int]:
    """The values within bounds, the nearest first."""
    below = 0 if bounds.lower is None else bounds.lower - given
    above = 0 if bounds.upper is None else given - bounds.upper
    for distance in itertools.count(max(0, below, above)):
        near = [value for value in dict.fromkeys((given - distance, given + distance)) if value in bounds]
        if not near:
            return
        yield from near
