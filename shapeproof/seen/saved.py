"""What was seen as JSON, and again: each part of a file is checked against the others before any is believed."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import shapeproof
from shapeproof.constraints.errors import UsageError
from shapeproof.seen.calls import Kind, Slot, Strides
from shapeproof.seen.joint import MOST_VALUES, Joint
from shapeproof.seen.lattice import Lattice, Vector
from shapeproof.seen.points import Point, pruned

if TYPE_CHECKING:
    from pydantic import TypeAdapter

FORMAT: Literal[1] = 1
"""The version of the saved form."""
MOST_SIZES = 100_000
"""Sizes that all inputs of a call may have."""


@dataclass(frozen=True, slots=True)
class _Input:
    source: str
    kind: str
    dtype: str
    rank: int
    strides: Strides
    constants: list[str] | None


@dataclass(frozen=True, slots=True)
class _Calls:
    """What was seen of the calls of one kind."""

    inputs: list[_Input]
    base: Vector
    rows: tuple[Vector, ...]
    points: list[Point]
    values: list[list[int] | None]


@dataclass(frozen=True, slots=True)
class _Saved:
    format: Literal[1]
    shapeproof: str
    omitted: bool
    calls: list[_Calls]


@functools.cache
def _form() -> TypeAdapter[_Saved]:
    from pydantic import TypeAdapter  # most exports read no profile

    return TypeAdapter(_Saved)


def saved(joints: Mapping[Kind, Joint], *, omitted: bool) -> str:
    """The text of the file: of equal contents the same."""
    calls = [_calls(kind, joint) for kind, joint in joints.items()]
    content = _Saved(FORMAT, shapeproof.__version__, omitted, calls)
    return json.dumps(dataclasses.asdict(content), indent=1) + "\n"


def _calls(kind: Kind, joint: Joint) -> _Calls:
    slots = zip(kind, joint.strides, joint.constants, strict=True)
    return _Calls(
        [_Input(*slot, strides, _listed(constants)) for slot, strides, constants in slots],
        joint.lattice.base,
        joint.lattice.rows,
        sorted(joint.points),
        [_listed(values) for values in joint.values],
    )


def _listed(values: frozenset[Any] | None) -> list[Any] | None:
    return None if values is None else sorted(values)


def parsed(content: bytes, name: str) -> tuple[dict[Kind, Joint], bool]:
    """What the content of a file holds, and whether kinds of calls were left out. Errors call it by this name.

    Raises:
        UsageError: it is not what this release saves.
    """
    try:
        found = json.loads(content)["format"]
        if found == FORMAT:
            kept = _form().validate_json(content, strict=True, extra="forbid")
            joints = dict(map(_joint, kept.calls))
            if len(joints) == len(kept.calls):
                return joints, kept.omitted
    except (ValueError, KeyError, TypeError, RecursionError):  # pydantic's ValidationError is a ValueError
        raise UsageError(f"{name} is not a saved profile of what was seen") from None
    if type(found) is int and found != FORMAT and abs(found) < 2**31:
        raise UsageError(f"{name} is a profile of format {found}; this release reads format {FORMAT}")
    raise UsageError(f"{name} is not a saved profile of what was seen")


def _joint(calls: _Calls) -> tuple[Kind, Joint]:
    """The state that a file describes.

    Raises:
        ValueError: its parts contradict one another, or are no state that `save` writes.
    """
    kind = tuple(Slot(each.source, each.kind, each.dtype, each.rank) for each in calls.inputs)
    joint = Joint(
        Lattice(calls.base, calls.rows),
        frozenset(calls.points),
        tuple(None if each is None else frozenset(each) for each in calls.values),
        tuple(each.strides for each in calls.inputs),
        tuple(None if each.constants is None else frozenset(each.constants) for each in calls.inputs),
    )
    if not (_is_kind(kind) and _fits(kind, joint) and _is_consistent(joint)):
        raise ValueError(calls)
    return kind, joint


def _is_kind(kind: Kind) -> bool:
    sources = [slot.source for slot in kind]
    ranked = all(slot.rank == 0 and not slot.dtype if slot.kind != "tensor" else slot.rank >= 0 for slot in kind)
    return ranked and kind == tuple(sorted(kind)) and len(set(sources)) == len(sources)


def _fits(kind: Kind, joint: Joint) -> bool:
    """Whether each part has as many numbers as the inputs have sizes."""
    width = sum(slot.rank if slot.kind == "tensor" else slot.kind == "int" for slot in kind)
    if width > MOST_SIZES:
        return False
    rows = (joint.lattice.base, joint.values, *joint.lattice.rows, *joint.points)
    strided = zip(kind, joint.strides, strict=True)
    return (
        all(len(row) == width for row in rows)
        and all(strides is None or len(strides) == slot.rank for slot, strides in strided)
        and all(each is None or len(each) <= MOST_VALUES for each in (*joint.values, *joint.constants))
    )


def _is_consistent(joint: Joint) -> bool:
    """Whether the points are such as are kept, lie on the lattice, and have values that were seen."""
    known = all(
        values is None or {point[i] for point in joint.points} <= values for i, values in enumerate(joint.values)
    )
    return (
        bool(joint.points)
        and known
        and all(any(row) for row in joint.lattice.rows)
        and joint.lattice.is_canonical()
        and all(point in joint.lattice for point in joint.points)
        and pruned(joint.points) == joint.points
    )
