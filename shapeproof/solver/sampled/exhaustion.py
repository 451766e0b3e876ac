"""Every point of a small box, one by one: complete, and exact however large the numbers grow."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TYPE_CHECKING

from shapeproof.constraints.errors import ShapeproofError
from shapeproof.constraints.meaning.compiled import compiled
from shapeproof.constraints.nodes import postorder
from shapeproof.constraints.work import charge

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from shapeproof.constraints.formulas import Formula
    from shapeproof.constraints.meaning.intervals import Interval
    from shapeproof.solver.budget import Allowance
    from shapeproof.solver.ledger import Ledger

_AT_ONCE = 512
_NODES_A_STEP = 64
"""So many nodes of compiled formulas are evaluated in a step of work."""


class TooManyPointsError(ShapeproofError):
    """The box has no end, or more points than are left to try."""


def box_size(intervals: Sequence[Interval]) -> int | None:
    """How many points the box has; None if it has no end.

    >>> from shapeproof.constraints.meaning.intervals import Interval
    >>> box_size([Interval(0, 2**63 - 1), Interval(1, 2)]) == 2**64, box_size([Interval(0, None)])
    (True, None)
    """
    if any(each.lower is None or each.upper is None for each in intervals):
        return None
    return prod(max(0, (each.upper or 0) - (each.lower or 0) + 1) for each in intervals)


def points_where(
    formulas: Sequence[Formula], names: Sequence[str], intervals: Sequence[Interval], ledger: Ledger, left: Allowance
) -> Iterator[dict[str, int]]:
    """The points of the box at which all the formulas hold, in lexicographic order.

    Raises:
        TooManyPointsError: they are not tried.
        Unevaluable: at some point it cannot be said whether they hold, so nothing can be said of the box.
    """
    size = box_size(intervals)
    if size is None or size > left.points:
        raise TooManyPointsError
    left.points -= size
    ledger.points += size
    cost = _AT_ONCE * sum(len(postorder(formula)) for formula in formulas) // _NODES_A_STEP
    ends = (end for interval in intervals for end in (interval.lower, interval.upper) if end is not None)
    test = compiled(formulas, names, max((end.bit_length() for end in ends), default=1))
    for index, values in enumerate(product(*map(_values, intervals))):
        if index % _AT_ONCE == 0:
            charge(cost)
        if test(*values):
            yield dict(zip(names, values, strict=True))


def _values(interval: Interval) -> range:
    return range(interval.lower or 0, (interval.upper or 0) + 1)
