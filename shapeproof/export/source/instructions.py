"""Read and write the instructions of any release of Python in terms of one small machine.

No other file names an opcode. Each step does one thing: what Python does by one instruction (`LOAD_FAST_LOAD_FAST`,
`RETURN_CONST`) is several steps at one offset, and what no value depends on (`NOP`, `RESUME`) is none.

Code is also assembled, in which other instructions, of any length, take the place of some. Their sizes are read from
code that the running Python has compiled. Jumps, handlers and positions follow the instructions that they belong to.

Laws:
- On each path, the steps make the stack as deep as `dis.stack_effect` says (test_instructions.py).
- Without changes, assembled code is what it was: the same instructions, jumps, handlers and positions.
"""

from __future__ import annotations

import dis
import functools
import itertools
import sys
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any, NamedTuple

READ = (3, 11) <= sys.version_info[:2] <= (3, 14)
"""True if the instructions of the running Python are known: its release is one that the tests were run on."""
_NAMES = {
    "const": "LOAD_CONST LOAD_SMALL_INT",
    "local": "LOAD_FAST LOAD_FAST_CHECK LOAD_FAST_BORROW LOAD_DEREF",
    "global": "LOAD_GLOBAL",
    "name": "LOAD_NAME",
    "cell": "LOAD_CLOSURE",
    "null": "PUSH_NULL",
    "common": "LOAD_COMMON_CONSTANT",
    "failing": "LOAD_ASSERTION_ERROR",
    "attribute": "LOAD_ATTR LOAD_METHOD",
    "super": "LOAD_SUPER_ATTR",
    "copy": "COPY",
    "swap": "SWAP",
    "pop": "POP_TOP POP_ITER",
    "store": "STORE_FAST",
    "store cell": "STORE_DEREF",
    "store global": "STORE_GLOBAL",
    "store other": "STORE_NAME STORE_ATTR",
    "delete global": "DELETE_GLOBAL",
    "call": "CALL CALL_KW",
    "call with all": "CALL_FUNCTION_EX",
    "operate": "BINARY_OP",
    "subscript": "BINARY_SUBSCR",
    "compare": "COMPARE_OP",
    "contains": "CONTAINS_OP",
    "is": "IS_OP",
    "not": "UNARY_NOT",
    "truth": "TO_BOOL",
    "format": "FORMAT_VALUE FORMAT_SIMPLE FORMAT_WITH_SPEC CONVERT_VALUE",
    "tuple": "BUILD_TUPLE",
    "list": "BUILD_LIST",
    "dict": "BUILD_MAP",
    "dict of keys": "BUILD_CONST_KEY_MAP",
    "function": "MAKE_FUNCTION SET_FUNCTION_ATTRIBUTE",
    "compute": "UNARY_NEGATIVE UNARY_INVERT BUILD_SET BUILD_STRING BUILD_SLICE GET_ITER LIST_TO_TUPLE "
    "LOAD_FAST_AND_CLEAR",
    "add": "LIST_APPEND SET_ADD",
    "extend": "LIST_EXTEND SET_UPDATE",
    "import": "IMPORT_NAME",
    "for": "FOR_ITER",
    "return": "RETURN_VALUE",
    "yield": "YIELD_VALUE",
    "raise": "RAISE_VARARGS",
    "reraise": "RERAISE",
    "handle": "PUSH_EXC_INFO",
    "match": "CHECK_EXC_MATCH",
    "match class": "MATCH_CLASS",
    "enter": "BEFORE_WITH",
    "exit": "WITH_EXCEPT_START",
    "pass": "NOP RESUME CACHE PRECALL KW_NAMES COPY_FREE_VARS NOT_TAKEN END_FOR RETURN_GENERATOR",
}
_DOES = {name: does for does, names in _NAMES.items() for name in names.split()}
"""What each instruction does, by Python's name for it."""
_OPCODES = {does: [dis.opmap[name] for name in names.split() if name in dis.opmap] for does, names in _NAMES.items()}
_PUSHING = {"END_FOR", "RETURN_GENERATOR"}
"""The instructions before a pop of what Python leaves there: the iterator, which "for" has popped, or a marker."""
Operation = tuple[str, int]
"""What an instruction does, and its argument."""
_UNIT = 2
"""The bytes of an instruction, or of a part of what Python keeps beside it."""
_LONGEST = 8
"""The most units whose position one entry of the table of positions gives."""
_NO_POSITION, _POSITION = 0b1_1111_000, 0b1_1110_000
ENDING = {"return", "raise", "reraise"}
_ENTERING = ["copy", "special", "swap", "swap", "special", "call"]
"""How Python 3.14 enters a `with`; older versions have one instruction."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that an instruction does."""

    does: str
    arg: int
    value: Any
    """A name, a constant or the sign of an operator; of a jump, the index of the step to which it leads."""
    effect: int
    """By how many values the stack grows; of a jump, nothing is read of it."""
    offset: int
    positions: dis.Positions | None
    called: bool = False
    """True if a null is pushed, too: the value will be called."""
    names: tuple[str, ...] = ()
    """The names of the last arguments of a call."""
    jumps: bool = False
    is_target: bool = False
    """True if a jump or an exception leads here."""

    @property
    def line(self) -> int | None:
        """The line of the source."""
        return self.positions.lineno if self.positions else None

    @property
    def leaves(self) -> bool:
        """True if another step than the next may follow."""
        return self.jumps or self.does in ENDING


def codes_within(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a function, and of the functions defined in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_within(constant)


def has(code: CodeType, does: str) -> bool:
    """False if a code has no instruction that does this; reading the bytes takes a hundredth of the time of `dis`."""
    return not set(_OPCODES[does]).isdisjoint(code.co_code[::2])


def instructions(code: CodeType) -> tuple[Step, ...]:
    """The steps of a code object, in order; none on a Python whose instructions are unknown."""
    return steps_of(code) if READ else ()


@functools.lru_cache(maxsize=2**14)
def steps_of(code: CodeType) -> tuple[Step, ...]:
    """The steps of a code object, in order; of what is in no table above, `does` is Python's name."""
    steps = list(_steps(code))
    for at in range(len(steps) - len(_ENTERING), -1, -1):
        entering = steps[at : at + len(_ENTERING)]
        if [step.does for step in entering] == _ENTERING and entering[4].value == "__enter__":
            steps[at : at + len(_ENTERING)] = [replace(entering[-1], does="enter", effect=2)]
    offsets = [step.offset for step in steps]
    steps = [replace(step, value=bisect_left(offsets, step.value)) if step.jumps else step for step in steps]
    targets = {step.value for step in steps if step.jumps}
    targets |= {bisect_left(offsets, entry.target) for entry in handled_ranges(code)}
    return tuple(replace(step, is_target=True) if at in targets else step for at, step in enumerate(steps))


class Brief(NamedTuple):
    """One instruction, of which little is read: the name or constant that it loads."""

    does: str
    arg: int
    value: Any
    offset: int
    called: bool
    """True if a null is pushed, too: the value will be called."""


def briefly(code: CodeType) -> list[Brief]:
    """Return the instructions of a code object, in order; none on a Python whose instructions are unknown.

    It takes a fiftieth of the time of `instructions`, which knows what each does to the stack.

    >>> [each.value for each in briefly((lambda x: len(x) + 1000).__code__) if each.does in {"global", "const"}]
    ['len', 1000]
    """
    found, argument, raw = list[Brief](), 0, code.co_code if READ else b""
    for offset in range(0, len(raw), _UNIT):
        opcode, argument = raw[offset], argument << 8 | raw[offset + 1]
        if opcode == dis.EXTENDED_ARG:
            continue
        does = _BRIEFLY.get(opcode)
        if does is not None:
            flagged = opcode in _FLAGGED
            value = _loaded(code, does, opcode, argument >> flagged)
            found.append(Brief(does, argument, value, offset, opcode in _CALLING or bool(flagged and argument & 1)))
        argument = 0
    return found


def _loaded(code: CodeType, does: str, opcode: int, argument: int) -> Any:
    if does in {"global", "attribute"}:
        return code.co_names[argument]
    if does == "const":
        return code.co_consts[argument] if opcode in dis.hasconst else argument  # Python 3.14 loads a small number so
    return None


def _opcodes(*names: str) -> frozenset[int]:
    return frozenset(dis.opmap[name] for name in names if name in dis.opmap)


_BRIEFLY = {opcode: _DOES.get(name, name) for name, opcode in dis.opmap.items() if _DOES.get(name) != "pass"}
_FLAGGED = _opcodes("LOAD_GLOBAL", *(["LOAD_ATTR"] if sys.version_info >= (3, 12) else ()))
"""The instructions whose argument has, below the index of the name, a bit that says if the value will be called."""
_CALLING = _opcodes("LOAD_METHOD") if sys.version_info < (3, 12) else frozenset[int]()


def is_target(code: CodeType, offset: int) -> bool:
    """True if a jump leads to the instruction at an offset."""
    return offset in dis.findlabels(code.co_code)  # type: ignore[arg-type] # it is told wrong: of the bytes


def index_at(code: CodeType, offset: int) -> int:
    """Return the index of the first step of the instruction at an offset."""
    return bisect_left(instructions(code), offset, key=lambda step: step.offset)


def handler_of(code: CodeType, offset: int) -> int | None:
    """Return the index of the handler of what is raised at an instruction; None without a handler."""
    target = next((entry.target for entry in handled_ranges(code) if entry.start <= offset < entry.end), None)
    return None if target is None else index_at(code, target)


@functools.lru_cache(maxsize=2**14)
def handled_ranges(code: CodeType) -> tuple[Any, ...]:
    """Return the entries of a code's table of handlers: start, end, the handler, and the stack there."""
    return tuple(dis._parse_exception_table(code))  # type: ignore[attr-defined]  # noqa: SLF001 - there is no other


def _steps(code: CodeType) -> Iterator[Step]:
    cells = {*code.co_cellvars, *code.co_freevars}
    made = [each for each in dis.get_instructions(code) if each.opname != "EXTENDED_ARG"]
    names: tuple[str, ...] = ()
    for before, each, after in zip([None, *made], made, [*made[1:], None], strict=False):
        kept = _DOES.get(each.opname, each.opname), each.arg or 0, each.argval
        step = Step(*kept, dis.stack_effect(each.opcode, each.arg, jump=False), each.offset, each.positions)
        if each.opname == "KW_NAMES" or (after is not None and after.opname == "CALL_KW"):
            names = code.co_consts[step.arg]
        elif step.does == "call":
            # Python 3.11 has two instructions for a call, and runs some functions of C already at the first.
            offset = before.offset if before is not None and before.opname == "PRECALL" else step.offset
            yield replace(step, names=names, effect=-1 - step.arg, offset=offset)
            names = ()
        elif step.does != "pass" and not (step.does == "pop" and before is not None and before.opname in _PUSHING):
            yield from _parts(step, each, cells)


def _parts(step: Step, made: dis.Instruction, cells: set[str]) -> list[Step]:
    """Return what an instruction does."""
    name, arg = made.opname, step.arg
    part = functools.partial(replace, step)
    if made.opcode in dis.hasjrel or made.opcode in dis.hasjabs:
        return _jumping(step, made.opname)
    match name:
        case "LOAD_FAST" if made.argval in cells:
            return [part(does="cell")]
        case "LOAD_FAST_LOAD_FAST" | "LOAD_FAST_BORROW_LOAD_FAST_BORROW":
            return [part(does="local", value=local, effect=1) for local in made.argval]
        case "STORE_FAST_STORE_FAST":
            return [part(does="store", value=local, effect=-1) for local in made.argval]
        case "STORE_FAST_LOAD_FAST":
            stored, loaded = made.argval
            return [part(does="store", value=stored, effect=-1), part(does="local", value=loaded, effect=1)]
        case "LOAD_GLOBAL" | "LOAD_SUPER_ATTR":
            return [part(called=bool(arg & 1))]
        case "LOAD_ATTR" | "LOAD_METHOD":
            return [part(called=made.opcode in _CALLING or bool(made.opcode in _FLAGGED and arg & 1))]
        case "BINARY_OP":
            return [part(does="subscript" if made.argrepr == "[]" else "operate", value=made.argrepr)]
        case "COMPARE_OP" if made.argrepr.startswith("bool("):
            return [step, part(does="truth", effect=0)]
        case "BINARY_SLICE":
            return [part(does="compute", arg=2, effect=-1), part(does="subscript", effect=-1)]
        case "RETURN_CONST":
            return [part(does="const", effect=1), part(does="return", effect=-1)]
        case "LOAD_COMMON_CONSTANT" if made.argrepr == "AssertionError":
            return [part(does="failing")]
        case "CALL_INTRINSIC_1" if made.argrepr == "INTRINSIC_LIST_TO_TUPLE":
            return [part(does="compute")]
        case "LOAD_SPECIAL":
            return [part(does="special", value=made.argrepr)]
    return [step]


def _jumping(step: Step, name: str) -> list[Step]:
    """Return what a jump does: `if true` pops the value that it tests, as every jump does from Python 3.12 on."""
    test = name.partition("_IF_")[2].removesuffix("_OR_POP").replace("_", " ").lower()
    does = f"if {test}" if test else "jump" if name.startswith("JUMP") else step.does
    jump = replace(step, does=does, jumps=True)
    if not name.endswith("_OR_POP"):
        return [jump]
    copy, pop = replace(step, does="copy", arg=1), replace(step, does="pop", effect=-1, offset=step.offset + 1)
    return [copy, jump, pop]


# ---------------------------------------------------------------------- code with other instructions


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
    raw = in_place(code, changes)
    return anew(code, changes, **parts) if raw is None else code.replace(co_code=raw, **parts)


def anew(code: CodeType, changes: Mapping[int, Sequence[Operation]], **parts: Any) -> CodeType:
    """Return such code with each instruction at the place that the changes leave it."""
    places = list(_places(code, changes))
    moved = _moved(places, len(code.co_code))
    table = b"".join(_handled(each, moved) for each in handled_ranges(code))
    lines = b"".join(_lines(places, code.co_firstlineno))
    return code.replace(co_code=b"".join(map(bytes, places)), co_exceptiontable=table, co_linetable=lines, **parts)


def in_place(code: CodeType, changes: Mapping[int, Sequence[Operation]]) -> bytes | None:
    """Return the bytes of code in which each change has room where its instruction stood, so that nothing moves.

    An instruction stands between the extensions of its argument and what Python keeps beside it. What is left of its
    place does nothing. None if a change is longer.
    """
    raw = bytearray(code.co_code)
    for offset, made in changes.items():
        start, end = offset, offset + _UNIT
        while start and raw[start - _UNIT] == dis.EXTENDED_ARG:
            start -= _UNIT
        while end < len(raw) and raw[end] == _BESIDE:
            end += _UNIT
        new = b"".join(_encoded(*_operation(*each)) for each in made)
        if len(new) > end - start:
            return None
        raw[start:end] = new + _NOTHING * ((end - start - len(new)) // _UNIT)
    return bytes(raw)


_BESIDE = dis.opmap["CACHE"]
_NOTHING = bytes((dis.opmap["NOP"], 0))


def _places(code: CodeType, changes: Mapping[int, Sequence[Operation]]) -> Iterator[_Place]:
    positions = list(code.co_positions())
    for start, step, end in _spans(code):
        made = changes.get(step.offset)
        jumps = step.opcode in dis.hasjrel
        own = [(step.opcode, 0 if jumps else step.arg or 0, (end - step.offset) // _UNIT - 1)]
        operations = own if made is None else list(itertools.starmap(_operation, made))
        yield _Place(start, operations, positions[step.offset // _UNIT], step.argval if jumps else None)


def _operation(does: str, argument: int) -> tuple[int, int, int]:
    opcode = _OPCODES[does][0]
    return opcode, argument, _SIZES.get(opcode, _UNIT) // _UNIT - 1


def _spans(code: CodeType) -> list[tuple[int, dis.Instruction, int]]:
    """Return each instruction with its start, where its argument may be extended, and its end."""
    steps = list(dis.get_instructions(code))
    wide = [step.opname == "EXTENDED_ARG" for step in steps]
    starts = [step.offset for step, before in zip(steps, [False, *wide], strict=False) if not before]
    own = (step for step, extends in zip(steps, wide, strict=True) if not extends)
    return list(zip(starts, own, [*starts[1:], len(code.co_code)], strict=True))


_SIZES = {step.opcode: end - start for start, step, end in _spans((lambda a, b: (a in b) | len(b)).__code__)}
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
