"""Lists the sizes to be padded: all that are declared, or those that were seen."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.meaning.compiled import compiled
from shapeproof.constraints.meaning.intervals import Interval
from shapeproof.constraints.records.domain import ranges
from shapeproof.export.forms.programs import VerifiedProgram
from shapeproof.export.shim.inputs import dims
from shapeproof.seen import Seen
from shapeproof.seen.joint import Joint
from shapeproof.serve.padded.plans import Point
from shapeproof.wording import values_text

MOST_POINTS = 2**18
"""How many sizes are counted, one by one."""


@dataclass(frozen=True)
class Sizes:
    """Points to be padded, in order, by the names of their dims; `holds` says which corners one may pad to."""

    names: tuple[str, ...]
    points: Sequence[Point]
    holds: Callable[[Point], bool] = field(default=lambda _: True)

    def said(self, point: Point) -> str:
        """Return a point as text.

        >>> Sizes(("b", "s"), [(1, 2)]).said((1, 2))
        'b = 1, s = 2'
        """
        return values_text(dict(zip(self.names, point, strict=True)))


def sizes_of(domain: Any) -> Sizes:
    """Return the sizes of a domain in any of its forms.

    Raises:
        UsageError: it is none, is empty, has no upper bound, or has too many sizes.
    """
    if isinstance(domain, VerifiedProgram):
        return _of_program(domain)
    if isinstance(domain, Seen):
        return _of_seen(domain)
    if not isinstance(domain, Mapping) or not domain:
        raise UsageError(f"expected dims such as {{'n': (1, 4096)}}, a Seen or a program, got {domain!r}")
    named = {name: _ends(name, entry) for name, entry in domain.items()}
    return Sizes(tuple(named), _box(tuple(named), list(named.values())))


def _ends(name: Any, entry: Any) -> tuple[int, int]:
    if not isinstance(name, str):
        raise UsageError(f"expected the name of a dim, got {name!r}")
    dim = dims.read(entry)
    match dim.bounds if isinstance(dim, dims.NamedDim) else entry:
        case (low, high):
            return _checked(name, low, high)
    raise UsageError(f"{name}: expected its least and greatest size, such as (1, 4096), got {entry!r}")


def _checked(name: str, low: Any, high: Any) -> tuple[int, int]:
    if high is None or high == math.inf or (isinstance(high, int) and high >= 2**62):
        raise UsageError(f"{name} has no upper bound: buckets need its greatest size")
    if any(isinstance(end, bool) or not isinstance(end, int) for end in (low, high)):
        raise UsageError(f"{name}: expected its least and greatest size, such as (1, 4096), got {(low, high)!r}")
    if not 0 <= low <= high:
        raise UsageError(f"{name}: expected 0 <= least <= greatest, got ({low}, {high})")
    return low, high


def _box(names: Sequence[str], ends: Sequence[tuple[int, int]]) -> list[Point]:
    count = math.prod(high - low + 1 for low, high in ends)
    if count > MOST_POINTS:
        raise UsageError(f"{' x '.join(names)} has {count} sizes; buckets of at most {MOST_POINTS} can be planned")
    return list(itertools.product(*(range(low, high + 1) for low, high in ends)))


def _of_program(program: VerifiedProgram) -> Sizes:
    """Return the sizes that a program accepts; the buckets must be among them."""
    contract = program.contract
    symbols = sorted(set().union(*(term.symbols for terms in contract.sizes for term in terms)))
    if not symbols:
        raise UsageError("the program has no dynamic sizes: there is nothing to pad")
    names = tuple(contract.names[each] for each in symbols)
    known = ranges(contract.formulas)
    ends = [_within(name, known.get(each, Interval())) for each, name in zip(symbols, names, strict=True)]
    test = compiled([each for each in contract.formulas if each.symbols <= set(symbols)], symbols)
    points = [point for point in _box(names, ends) if test(*point)]
    if not points:
        raise UsageError("the program takes no sizes: there is nothing to pad")
    return Sizes(names, points, lambda corner: test(*corner))


def _within(name: str, known: Interval) -> tuple[int, int]:
    return _checked(name, max(0, known.lower or 0), known.upper)


def _of_seen(seen: Seen) -> Sizes:
    """Return the sizes seen, each once; of sizes that are always equal, the first stands for all."""
    if len(seen.joints) != 1:
        raise UsageError(f"expected calls of one kind to plan buckets for, got {len(seen.joints)} kinds")
    ((kind, joint),) = seen.joints.items()
    names = [name for slot in kind for name in slot.sizes]
    columns: dict[tuple[int, ...], int] = {}
    ordered = sorted(joint.points)
    for index, varies in enumerate(joint.varying):
        if varies:
            columns.setdefault(tuple(point[index] for point in ordered), index)
    if not columns:
        raise UsageError("no size was seen to vary: there is nothing to pad")
    chosen = list(columns.values())
    return Sizes(tuple(names[index] for index in chosen), _points(joint, chosen))


def _points(joint: Joint, columns: Sequence[int]) -> list[Point]:
    """Return the values of one size; for several sizes, the points kept and one above all of them."""
    if len(columns) == 1:
        (index,) = columns
        values, (low, high) = joint.values[index], joint.bounds[index]
        return [(value,) for value in (range(low, high + 1) if values is None else sorted(values))]
    top = tuple(joint.bounds[index][1] for index in columns)
    return sorted({top, *(tuple(point[index] for index in columns) for point in joint.points)})
