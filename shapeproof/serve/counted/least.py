"""The fewest sets that cover, and the fewest blocks of a partition: exact, by trying all, for small numbers.

Which sets there are, and which blocks may be, is the caller's business.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

_T = TypeVar("_T", bound=Hashable)
MOST_SETS = 24
"""No cover is sought for more sets than this, counting only sets that lie in no other."""


def fewest_to_cover(whole: frozenset[_T], sets: Iterable[frozenset[_T]]) -> int | None:
    """How many of the sets cover the whole at least; None if there are too many sets, or they do not cover it.

    >>> fewest_to_cover(frozenset("abc"), [frozenset("ab"), frozenset("bc"), frozenset("b")])
    2
    """
    distinct = {each & whole for each in sets}
    kept = [each for each in distinct if not any(each < other for other in distinct)]
    if frozenset().union(*kept) != whole or len(kept) > MOST_SETS:
        return None if whole else 0
    counts = range(len(kept) + 1)
    return next(n for n in counts if any(_union(some) == whole for some in itertools.combinations(kept, n)))


def _union(sets: Iterable[frozenset[_T]]) -> frozenset[_T]:
    return frozenset[_T]().union(*sets)


def partitions(count: int) -> Iterator[tuple[tuple[int, ...], ...]]:
    """The partitions of 0, 1, ... into blocks, those with fewest blocks first.

    >>> list(partitions(3))[:3]
    [((0, 1, 2),), ((0, 1), (2,)), ((0, 2), (1,))]
    """

    def grown(index: int) -> Iterator[tuple[tuple[int, ...], ...]]:
        if index < 0:
            yield ()
            return
        for blocks in grown(index - 1):
            for place, block in enumerate(blocks):
                yield (*blocks[:place], (*block, index), *blocks[place + 1 :])
            yield (*blocks, (index,))

    yield from sorted(grown(count - 1), key=len)


def fewest_blocks(count: int, may_be: Callable[[tuple[int, ...]], bool], least: int = 1) -> tuple[tuple[int, ...], ...]:
    """The partition into fewest blocks that all may be; a block of one always may. Fewer than `least` are not tried.

    >>> fewest_blocks(3, lambda block: block != (0, 1, 2) and block != (0, 1))
    ((0, 2), (1,))
    """
    tried = (each for each in partitions(count) if len(each) >= least)
    return next(each for each in tried if all(len(block) == 1 or may_be(block) for block in each))
