"""Bounds of integers from a fact about doubles: cut off an end of a range if the fact fails everywhere on that end.

`ceil(n * 0.3) <= 3` implies `n <= 10`. No inverse of a double function is used, since none can be trusted. Instead, the
ranges of doubles.py show that a fact is false on a whole end, and bisection finds how far that end reaches.
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
"""The search stops here: tensor sizes are smaller."""


def shaved(formula: Formula, known: Knowledge) -> Iterator[Formula]:
    """Infer bounds of single symbols from a reduced comparison with doubles and from the symbols' ranges.

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
    """Return a test of intervals: True if the formula is false for each value in it, with other symbols in range."""
    ranges = {each: known.range_of(each) for each in formula.symbols}
    return lambda interval: KnownBounds(ranges | {name: interval}, {}).truth(formula) is False


def _reach(start: int, stop: int, fails: Callable[[int], bool]) -> int | None:
    """Return the first end from `start` towards `stop` for which `fails` is false; None if that is `start`."""
    if not fails(start):
        return None
    step = 1 if start <= stop else -1
    failing, limit = 0, abs(stop - start) + 1
    while limit - failing > 1:
        middle = (failing + limit) // 2
        failing, limit = (middle, limit) if fails(start + step * middle) else (failing, middle)
    return start + step * limit
