"""Points at which all facts hold: cheap candidates, which are evaluated before use.

A point gives a value to every symbol of the facts and to the made-up names for quotients. Candidates choose values of
the free symbols: ends of ranges, values near them, small primes, a fixed pseudo-random sequence. So solved equalities
and congruences hold by construction; the other facts are checked.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import has_meaning, true_at, value_at, values_at
from shapeproof.constraints.meaning.intervals import Interval
from shapeproof.constraints.nodes import postorder
from shapeproof.constraints.reals import RealConstant, RealSymbol
from shapeproof.constraints.terms import Term
from shapeproof.solver.learned.equalities import FRESH
from shapeproof.solver.learned.knowledge import Knowledge

Point: TypeAlias = "dict[str, int]"

_PRIMES = (7, 11, 5, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97)
_ODD = (0.5, -0.5, math.nan, math.inf, -math.inf, -1.0, sys.float_info.max)
"""Doubles at which float conditions tend to change their truth."""
_FAR = 1000
_RANDOM_PROFILES = 8
_MOST_NUDGED = 3


def public(point: Mapping[str, int]) -> Point:
    """Return the point without made-up names, sorted by name."""
    return {name: value for name, value in sorted(point.items()) if not name.startswith(FRESH)}


def complete(known: Knowledge, chosen: Mapping[str, int]) -> Point | None:
    """Return the complete point for values of the free symbols; None if a solved symbol has no value there."""
    solved = values_at(known.solved, chosen)
    return None if solved is None else named(known, {**chosen, **solved})


def named(known: Knowledge, point: Mapping[str, int]) -> Point | None:
    """Return the point with each made-up name bound to the value of its term; None if a term has no value there."""
    made_up = values_at(known.definitions, point)
    return None if made_up is None else {**point, **made_up}


def filled(known: Knowledge, point: Mapping[str, int]) -> Point | None:
    """Return the point with each missing solved symbol bound to its value; None if it has no value there."""
    left_out = values_at({name: term for name, term in known.solved.items() if name not in point}, point)
    return None if left_out is None else {**point, **left_out}


def moved(known: Knowledge, base: Point, name: str, value: int) -> tuple[Point, set[str]] | None:
    """Return a complete point with a new value for a free symbol, and the names of the values that this may change."""
    point, changed = base | {name: value}, {name}
    solved = known.solved_with.among([name])
    return _redefined(known, point, changed.union(solved)) if _bind(point, solved, known.solved) else None


def nudged(known: Knowledge, base: Point, news: Iterable[Formula]) -> Iterator[tuple[Point, set[str]]]:
    """Complete points with new values for symbols of the new facts, and the names of the values that may change.

    First, solved symbols get the values given by the free symbols; then one free symbol at a time is moved.
    """
    symbols = sorted({name for fact in news for name in fact.symbols})
    settled = values_at({name: known.solved[name] for name in symbols if name in known.solved}, base)
    moves = (
        moved(known, base, name, value)
        for name in [name for name in symbols if name not in known.solved][:_MOST_NUDGED]
        for value in sorted({_usual(profile, known, name) for profile in _NUDGES} - {base[name]})
    )
    again = None if settled is None else _redefined(known, {**base, **settled}, set(settled))
    return (each for each in itertools.chain([again], moves) if each is not None)


def _redefined(known: Knowledge, point: Point, changed: set[str]) -> tuple[Point, set[str]] | None:
    """Return the point with recomputed values of made-up names whose terms changed, and the extended set of changes."""
    defined = known.defined_with.among(sorted(changed))
    return (point, changed.union(defined)) if _bind(point, defined, known.definitions) else None


def _bind(point: Point, names: Iterable[str], terms: Mapping[str, Term]) -> bool:
    """Bind each name, in order, to the value of its term at the point so far; False if a term has no value there."""
    for name in names:
        value = value_at(terms[name], point)
        if value is None:
            return False
        point[name] = value
    return True


def extended(known: Knowledge, point: Point, news: Iterable[Formula]) -> Point | None:
    """Return the point with values for the symbols of the new facts and for names made up for them."""
    strange = sorted({name for fact in news for name in fact.symbols if name not in point})
    coined = [name for name in known.coined if name not in point]
    whole = dict(point) if strange or coined else point
    for name in (*strange, *coined):
        meaning = known.definitions.get(name)
        if meaning is not None and meaning.symbols <= whole.keys():
            if not _bind(whole, [name], known.definitions):
                return None
        elif name not in known.solved:
            whole[name] = _usual("low", known, name, len(whole))
    solved = [name for name in strange if name in known.solved]
    return whole if _bind(whole, solved, known.solved) else None


def carried(known: Knowledge, free: set[str], point: Mapping[str, int]) -> Point | None:
    """Return a point of the old facts with recomputed values of solved symbols; new facts may fail there."""
    whole = dict(point)
    for name, definition in known.definitions.items():
        if name not in whole and definition.symbols <= whole.keys() and not _bind(whole, [name], known.definitions):
            return None
    for index, name in enumerate(sorted(free - whole.keys())):
        whole[name] = _usual("low", known, name, index)
    return complete(known, {name: whole[name] for name in free})


def satisfies(known: Knowledge, point: Mapping[str, int]) -> bool:
    """True if the knowledge holds at the point: a first test that is cheaper than evaluating the facts."""
    for name, interval in known.ranges.items():
        if point[name] not in interval:
            return False
    return all(true_at(formula, point) for formula in known.remaining() if has_meaning(formula))


def candidates(known: Knowledge, names: Iterable[str]) -> Iterator[Point]:
    """Candidate points, the simplest first, in a fixed order."""
    return (point for each in _choices(known, sorted(names)) if (point := complete(known, each)) is not None)


def _choices(known: Knowledge, free: Sequence[str]) -> Iterator[Point]:
    """Values of the free symbols."""
    for profile in _PROFILES:
        yield {name: _usual(profile, known, name, index) for index, name in enumerate(free)}
    sequence = _pseudo_random()
    for _ in range(_RANDOM_PROFILES):
        yield {name: _any(known, name, next(sequence)) for name in free}
    names, values = doubles(known.remaining())
    for value, profile in itertools.product(values if names else (), ("low", "generic")):
        others = {name: _usual(profile, known, name, index) for index, name in enumerate(free)}
        yield others | dict.fromkeys(names, value)


def doubles(formulas: Iterable[Formula]) -> tuple[set[str], list[Any]]:
    """Return the names of floats in the formulas, and doubles to try for them: odd values, and values around constants.

    Points assign integers otherwise; a float that an integer may replace gets an integer.

    >>> from shapeproof.constraints.syntax.text import parse_formula
    >>> names, values = doubles([parse_formula("real(v) < 0.5")])
    >>> names, 0.49999999999999994 in values, 0.5 in values
    ({'v'}, True, True)
    """
    names: set[str] = set()
    found = dict.fromkeys(_ODD)
    for formula in formulas:
        for node in postorder(formula):
            if isinstance(node, RealSymbol):
                names.add(node.name)
            elif isinstance(node, RealConstant):
                near = (node.value, *(math.nextafter(node.value, end) for end in (math.inf, -math.inf)))
                found |= dict.fromkeys(near)
    return names, list(found)


def free_symbols(known: Knowledge, symbols: frozenset[str]) -> set[str]:
    """Return these symbols and those of the knowledge that are not solved."""
    names = set(known.ranges) | set(known.definitions) | symbols
    for term in known.solved.values():
        names |= term.symbols
    return names - set(known.solved)


def _usual(profile: str, known: Knowledge, name: str, index: int = 0) -> int:
    """Return the value of a symbol in a profile; `index` sets apart the symbols of a point."""
    within = known.range_of(name)
    value = _PROFILES[profile](within, index)
    if within.lower is not None and value < within.lower:
        value = within.lower
    return within.upper if within.upper is not None and value > within.upper else value


_PROFILES: Mapping[str, Callable[[Interval, int], int]] = {
    "low": lambda within, _: 0 if within.lower is None else -_FAR,
    "generic": lambda _, index: _PRIMES[index % len(_PRIMES)],
    "high": lambda _, index: _FAR + index,
    "near low": lambda within, index: (within.lower or 0) + 1 + index % 3,
    "near high": lambda within, index: (-1 if within.upper is None else within.upper - 1) - index % 2,
}
"""Values to which a symbol's range is applied; the range may move them."""
_NUDGES = ("low", "generic", "high", "near low")


def _any(known: Knowledge, name: str, draw: int) -> int:
    interval = known.range_of(name)
    low = interval.lower if interval.lower is not None else -8 if interval.upper is None else interval.upper - 64
    high = interval.upper if interval.upper is not None else low + 64
    return low + draw % (min(high, low + 512) - low + 1)


def _pseudo_random() -> Iterator[int]:
    state = 20_24
    while True:
        state = (6364136223846793005 * state + 1442695040888963407) % 2**64
        yield state >> 33
