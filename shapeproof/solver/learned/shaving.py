"""What a fact about doubles says of the integers in it: an end of a range on all of which it fails is cut off.

From `ceil(n * 0.3) <= 3` it follows that n is at most 10. Doubles have no inverse functions that could be trusted, so
none is used: that a fact is false on all of an end is seen from the ranges of doubles.py, and how far that reaches is
found by halving.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shapeproof.constraints.formulas import Compare, RealCompare, ge, le
from shapeproof.constraints.meaning.intervals import Interval
from shapeproof.constraints.reals import Real
from shapeproof.constraints.terms import Apply, symbol
from shapeproof.solver.learned.bounding import KnownBounds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from shapeproof.constraints.formulas import Formula
    from shapeproof.solver.learned.knowledge import Knowledge

_FARTHEST = 2**63
"""No size is beyond, so no end is looked for there."""


def shaved(formula: Formula, known: Knowledge) -> Iterator[Formula]:
    """Bounds of single symbols that follow from a reduced comparison in which doubles occur, and from their ranges.

    >>> from shapeproof.constraints.syntax.text import parse_formula
    >>> from shapeproof.solver.learned.knowledge import Knowledge
    >>> list(shaved(parse_formula("ceil(n * 0.3) <= 3"), Knowledge()))
    [n <= 10]
    """
    for name in sorted(formula.symbols) if _is_of_doubles(formula) else ():
        low, high = known.range_of(name).lower, known.range_of(name).upper
        last = max(_FARTHEST, low or 0) if high is None else high
        first = min(-_FARTHEST, last) if low is None else low
        fails = _failing(formula, name, known)
        kept = _reach(first, last, lambda end: fails(Interval(low, end)))  # noqa: B023  (called at once)
        if kept is not None:
            yield ge(symbol(name), kept)
        kept = _reach(last, first, lambda end: fails(Interval(end, high)))  # noqa: B023
        if kept is not None:
            yield le(symbol(name), kept)


def _is_of_doubles(formula: Formula) -> bool:
    match formula:
        case RealCompare():
            return True
        case Compare(_, term):
            atoms = (atom for monomial in term.poly for atom, _ in monomial)
            return any(isinstance(atom, Apply) and isinstance(atom.args[0], Real) for atom in atoms)
        case _:
            return False


def _failing(formula: Formula, name: str, known: Knowledge) -> Callable[[Interval], bool]:
    """Whether the formula is false wherever the symbol is in an interval, and the others are in their ranges."""
    ranges = {each: known.range_of(each) for each in formula.symbols}
    return lambda interval: KnownBounds(ranges | {name: interval}, {}).truth(formula) is False


def _reach(start: int, stop: int, fails: Callable[[int], bool]) -> int | None:
    """From `start` on towards `stop`, the first end up to which it does not fail; None if that is `start`."""
    if not fails(start):
        return None
    step = 1 if start <= stop else -1
    failing, limit = 0, abs(stop - start) + 1
    while limit - failing > 1:
        middle = (failing + limit) // 2
        failing, limit = (middle, limit) if fails(start + step * middle) else (failing, middle)
    return start + step * limit
