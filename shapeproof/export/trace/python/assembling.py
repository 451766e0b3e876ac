"""Assemble code in which other instructions, of any length, take the place of some.

Each release of Python gives instructions other sizes. So sizes are read from code that the running Python has compiled.
Jumps, handlers and positions follow the instructions that they belong to.

Law: without changes the code is what it was: the same instructions, jumps, handlers and positions.
"""

from __future__ import annotations

import dis
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

from shapeproof.export.source.bytecode import handled_ranges

Operation = tuple[str, int]
"""The name of an instruction, and its argument."""
_UNIT = 2
"""The bytes of an instruction, or of a part of what Python keeps beside it."""
_LONGEST = 8
"""The most units whose position one entry of the table of positions gives."""
_NO_POSITION, _POSITION = 0b1_1111_000, 0b1_1110_000


@dataclass(slots=True)
class _Place:
    """What stands at the place of one instruction: operations, each with the units kept beside it."""

    offset: int
    operations: list[tuple[int, int, int]]
    position: tuple[int | None, ...]
    target: int | None = None
    """Where its jump leads."""

    @property
    def size(self) -> int:
        """Its length in bytes."""
        return sum(_UNIT * (len(_bytes(argument)) + beside) for _, argument, beside in self.operations)

    def __bytes__(self) -> bytes:
        return b"".join(itertools.starmap(_encoded, self.operations))


def assembled(code: CodeType, changes: Mapping[int, Sequence[Operation]], **parts: Any) -> CodeType:
    """Return code in which these operations replace the instructions at these offsets; none of them may jump.

    Args:
        code: the code.
        changes: the operations, by the offset of the instruction that they replace.
        parts: other parts of the code to replace: its constants, its names, the size of its stack.
    """
    places = list(_places(code, changes))
    moved = _moved(places, len(code.co_code))
    table = b"".join(_handled(each, moved) for each in handled_ranges(code))
    lines = b"".join(_lines(places, code.co_firstlineno))
    return code.replace(co_code=b"".join(map(bytes, places)), co_exceptiontable=table, co_linetable=lines, **parts)


def _places(code: CodeType, changes: Mapping[int, Sequence[Operation]]) -> Iterator[_Place]:
    positions = list(code.co_positions())
    for start, step, end in _spans(code):
        made = changes.get(step.offset)
        jumps = step.opcode in dis.hasjrel
        own = [(step.opcode, 0 if jumps else step.arg or 0, (end - step.offset) // _UNIT - 1)]
        operations = own if made is None else list(itertools.starmap(_operation, made))
        yield _Place(start, operations, positions[step.offset // _UNIT], step.argval if jumps else None)


def _operation(name: str, argument: int) -> tuple[int, int, int]:
    return dis.opmap[name], argument, _SIZES.get(name, _UNIT) // _UNIT - 1


def _spans(code: CodeType) -> list[tuple[int, dis.Instruction, int]]:
    """Return each instruction with its start, where its argument may be extended, and its end."""
    steps = list(dis.get_instructions(code))
    wide = [step.opname == "EXTENDED_ARG" for step in steps]
    starts = [step.offset for step, before in zip(steps, [False, *wide], strict=False) if not before]
    own = (step for step, extends in zip(steps, wide, strict=True) if not extends)
    return list(zip(starts, own, [*starts[1:], len(code.co_code)], strict=True))


_SIZES = {step.opname: end - start for start, step, end in _spans((lambda a, b: (a in b) | len(b)).__code__)}
"""The sizes of the instructions that are put in; those that only move values on the stack have one unit."""


def _moved(places: Sequence[_Place], end: int) -> dict[int, int]:
    """Set the arguments of the jumps, and return the new offset of each place, by the old one."""
    while True:
        offsets = [place.offset for place in places]
        moved = dict(zip([*offsets, end], itertools.accumulate((each.size for each in places), initial=0), strict=True))
        jumping = [place for place in places if place.target is not None and _jumps_anew(place, moved)]
        if not jumping:
            return moved


def _jumps_anew(place: _Place, moved: Mapping[int, int]) -> bool:
    """Set the argument of a jump; true if that is another one. Arguments start at 0, so that they only grow."""
    ((operation, argument, beside),) = place.operations
    distance = abs(moved[place.target or 0] - moved[place.offset] - place.size) // _UNIT
    place.operations = [(operation, distance, beside)]
    return distance != argument


def _bytes(argument: int) -> bytes:
    return argument.to_bytes(max(1, (argument.bit_length() + 7) // 8), "big")


def _encoded(operation: int, argument: int, beside: int) -> bytes:
    *extended, last = _bytes(argument)
    wide = b"".join(bytes((dis.EXTENDED_ARG, each)) for each in extended)
    return wide + bytes((operation, last)) + bytes(_UNIT * beside)


def _sixes(number: int) -> list[int]:
    """Return a number's digits to the base 64, the lowest first."""
    return [number & 63, *(_sixes(number >> 6) if number > 63 else ())]


def _handled(entry: Any, moved: Mapping[int, int]) -> bytes:
    """Return an entry of the table of handlers: numbers with the highest digit first; its first byte is marked."""
    start, end, handler = (moved[at] // _UNIT for at in (entry.start, entry.end, entry.target))
    digits = [_sixes(number) for number in (start, end - start, handler, entry.depth << 1 | entry.lasti)]
    made = [number[at] | 64 * (at > 0) for number in digits for at in reversed(range(len(number)))]
    return bytes((made[0] | 128, *made[1:]))


def _lines(places: Sequence[_Place], before: int) -> Iterator[bytes]:
    """Yield the table of positions; `before` is the line that its first entry counts from."""
    for place in places:
        units = place.size // _UNIT
        for start in range(0, units, _LONGEST):
            yield _line(place.position, before, min(_LONGEST, units - start) - 1)
            before = before if place.position[0] is None else place.position[0]


def _line(position: tuple[int | None, ...], before: int, more: int) -> bytes:
    """Return an entry for one unit and some more: numbers with the lowest digit first, absent columns as 0."""
    first, last, *columns = position
    if first is None:
        return bytes((_NO_POSITION | more,))
    step, down = abs(first - before), first < before
    numbers = (step << 1 | down, (last or first) - first, *(0 if at is None else at + 1 for at in columns))
    digits = (_sixes(number) for number in numbers)
    made = (each | 64 * (at < len(number)) for number in digits for at, each in enumerate(number, 1))
    return bytes((_POSITION | more, *made))
