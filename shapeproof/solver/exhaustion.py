"""Every point of a small box, one by one: complete, and exact however large the numbers grow."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TYPE_CHECKING

from shapeproof.solver.compiled import compiled

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from shapeproof.constraints.formulas import Formula
    from shapeproof.constraints.intervals import Interval


def box_size(intervals: Sequence[Interval]) -> int | None:
    """How many points the box has; None if it has no end."""
    if any(each.lower is None or each.upper is None for each in intervals):
        return None
    return prod(len(_values(each)) for each in intervals)


def points_where(
    formulas: Sequence[Formula], names: Sequence[str], intervals: Sequence[Interval]
) -> Iterator[dict[str, int]]:
    """The points of the box at which all the formulas hold, in lexicographic order.

    Raises:
        Unevaluable: at some point it cannot be said whether they hold, so nothing can be said of the box.
    """
    test = compiled(formulas, names)
    for values in product(*map(_values, intervals)):
        if test(*values):
            yield dict(zip(names, values, strict=True))


def _values(interval: Interval) -> range:
    return range(interval.lower or 0, (interval.upper or 0) + 1)
