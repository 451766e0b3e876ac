"""Every point of a small box, one by one: complete, and exact for integers of any length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

from shapeproof.constraints.errors import ShapeproofError
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.compiled import compiled
from shapeproof.constraints.meaning.intervals import Interval
from shapeproof.constraints.nodes import postorder
from shapeproof.constraints.work import charge
from shapeproof.solver.budget import Allowance
from shapeproof.solver.ledger import Ledger

_AT_ONCE = 512
_NODES_A_STEP = 64
"""The number of nodes of compiled formulas that are evaluated per unit of work."""


class TooManyPointsError(ShapeproofError):
    """The box is infinite, or has more points than the allowance."""


def box_size(intervals: Sequence[Interval]) -> int | None:
    """Return the number of points of the box; None if it is infinite.

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
        TooManyPointsError: the box has more points than are left to try.
        Unevaluable: at some point a formula has no value, so that the box is not decided.
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
