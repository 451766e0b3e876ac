"""The operands of an instruction: the values on the stack, derived from names, attributes and constants.

Instructions are read from the start of the straight line of code before the one in question. No user code is run: no
function is called and no property is read. The result of a call is represented by that call.
"""

from __future__ import annotations

import bisect
import dis
import functools
import inspect
import sys
import types
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import CodeType, FrameType
from typing import Any

UNKNOWN: Any = type("Unknown", (), {"__repr__": lambda _: "UNKNOWN"})()
"""A value about which nothing is known."""
TEXT: Any = type("Text", (), {"__repr__": lambda _: "TEXT"})()
"""A value that depends on a text in question; nothing else is known about it."""
NULL = object()
"""The marker that Python pushes beside a function that is not a method."""
_FAILING = "LOAD_ASSERTION_ERROR"
"""The first instruction of a failing assert statement."""
WITH_SPEC = 4
"""The flag of FORMAT_VALUE whose upper operand says how to format the other."""

_HELD_BY_THE_FRAME = 3
"""The references to a dict that only its frame holds, seen where one name and one argument hold it, too."""
Look = Callable[[str], Any]
"""Returns the value of a name; UNKNOWN if it has none."""


def is_a(value: Any, kinds: type | tuple[type, ...]) -> bool:
    """True if a value's class is one of these, or derived from one; `isinstance` may run a property of the value's."""
    return issubclass(type(value), kinds)


@dataclass(frozen=True, slots=True)
class Called:
    """The result of a call."""

    function: Any
    args: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Member:
    """A method of an object, as its class defines it; its name if the object is the result of a call."""

    owner: Any
    function: Any


def has_text(value: Any) -> bool:
    """True if a value depends on TEXT: it is TEXT, a method of it, or the result of a call with it."""
    if type(value) is Called:
        return has_text(value.function) or any(map(has_text, value.args))
    return has_text(value.owner) if type(value) is Member else value is TEXT


def computed(parts: list[Any]) -> Any:
    """Return what is known of a value that is computed from others: a call with TEXT, else TEXT, else UNKNOWN."""
    found = [part for part in parts if has_text(part)]
    return next((part for part in found if part is not TEXT), TEXT if found else UNKNOWN)


@dataclass(frozen=True, slots=True)
class InPlaceOf:
    """A constant in rewritten code: `this | value` stands for the value of a global name."""

    name: str


_TAKEN: Mapping[str, Callable[[int], int]] = {
    "BINARY_OP": lambda _: 2,
    "BINARY_SUBSCR": lambda _: 2,
    "COMPARE_OP": lambda _: 2,
    "CONTAINS_OP": lambda _: 2,
    "IS_OP": lambda _: 2,
    "UNARY_NEGATIVE": lambda _: 1,
    "UNARY_NOT": lambda _: 1,
    "UNARY_INVERT": lambda _: 1,
    "BUILD_SET": lambda count: count,
    "BUILD_STRING": lambda count: count,
    "BUILD_SLICE": lambda count: count,
    "TO_BOOL": lambda _: 1,
    "FORMAT_VALUE": lambda flags: 2 if flags & WITH_SPEC else 1,
    "LOAD_FAST_AND_CLEAR": lambda _: 0,
    "LOAD_COMMON_CONSTANT": lambda _: 0,
    "LOAD_CLOSURE": lambda _: 0,
    "GET_ITER": lambda _: 1,
    "LIST_TO_TUPLE": lambda _: 1,
}
"""How many operands some instructions pop; each of them pushes one unknown value."""
LOCAL = {"LOAD_FAST", "LOAD_DEREF"}
"""The instructions that push the value of a local name."""
_NAMING = {"LOAD_GLOBAL", "LOAD_NAME", *LOCAL}
PASSED = {"NOP", "RESUME", "CACHE", "PRECALL", "KW_NAMES", "COPY_FREE_VARS", "EXTENDED_ARG", "NOT_TAKEN", "END_FOR"}
"""The instructions that leave the values on the stack alone."""
_ENDING = {"RETURN_VALUE", "RAISE_VARARGS", "RERAISE"}


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction, as Python 3.11 would name it; the parts of one that does several things share its offset."""

    opname: str
    opcode: int
    arg: int | None
    argval: Any
    argrepr: str
    offset: int
    positions: dis.Positions | None
    is_jump_target: bool


READ = (3, 11) <= sys.version_info[:2] <= (3, 14)
"""True if the instructions of the running Python are known: its release is one that the tests were run on."""
_RENAMED = {
    "LOAD_FAST_CHECK": "LOAD_FAST",
    "LOAD_FAST_BORROW": "LOAD_FAST",
    "LOAD_SMALL_INT": "LOAD_CONST",
    "CALL_KW": "CALL",
    "POP_ITER": "POP_TOP",
    "FORMAT_SIMPLE": "FORMAT_VALUE",
    "CONVERT_VALUE": "FORMAT_VALUE",
}
_PARTS = {
    "LOAD_FAST_LOAD_FAST": ("LOAD_FAST", "LOAD_FAST"),
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW": ("LOAD_FAST", "LOAD_FAST"),
    "STORE_FAST_LOAD_FAST": ("STORE_FAST", "LOAD_FAST"),
    "STORE_FAST_STORE_FAST": ("STORE_FAST", "STORE_FAST"),
}
"""Instructions of two names."""
_TESTING = {"TO_BOOL", "EXTENDED_ARG"}
"""What may stand between the test of a value and the jump."""
_ENTERING = ("COPY", "LOAD_SPECIAL", "SWAP", "SWAP", "LOAD_SPECIAL", "CALL")
"""How Python 3.14 enters a `with`; older versions have one instruction."""


def codes_within(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a function, and of the functions defined in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_within(constant)


@functools.lru_cache(maxsize=2**14)
def instructions(code: CodeType) -> tuple[Instruction, ...]:
    """The instructions of a code object, in order; none on a Python whose instructions are unknown."""
    if not READ:
        return ()
    steps = [_instruction(step) for step in dis.get_instructions(code)]
    for at, (step, before) in enumerate(zip(steps, [None, *steps], strict=False)):
        if step.opname == "CALL_KW" and before is not None:
            steps[at - 1] = replace(before, opname="KW_NAMES")
        if before is not None and before.opname == "END_FOR" and step.opname in {"POP_TOP", "POP_ITER"}:
            steps[at] = replace(step, opname="NOP")  # Python skips it where a loop ends, and FOR_ITER has popped
        if tuple(each.opname for each in steps[at - 5 : at + 1]) == _ENTERING and steps[at - 1].argrepr == "__enter__":
            steps[at - 5 : at] = [replace(each, opname="NOP") for each in steps[at - 5 : at]]
            steps[at] = replace(step, opname="BEFORE_WITH")
    cells = {*code.co_cellvars, *code.co_freevars}
    return tuple(part for step in steps for part in _parts(step, cells))


def _instruction(step: dis.Instruction) -> Instruction:
    kept = step.opname, step.opcode, step.arg, step.argval, step.argrepr, step.offset, step.positions
    return Instruction(*kept, step.is_jump_target)


def _parts(step: Instruction, cells: set[str]) -> tuple[Instruction, ...]:
    """Return an instruction as Python 3.11 has it, or the instructions which it has in its place."""
    name, arg = step.opname, step.arg or 0
    second = functools.partial(replace, step, is_jump_target=False)
    match name:
        case name if name in _PARTS:
            names = zip((step, second()), _PARTS[name], step.argval, strict=True)
            return tuple(replace(each, opname=one, argval=value, argrepr=value) for each, one, value in names)
        case "LOAD_FAST" if step.argval in cells:
            return (replace(step, opname="LOAD_CLOSURE"),)
        case "LOAD_ATTR" if sys.version_info >= (3, 12) and arg & 1:
            return (replace(step, opname="LOAD_METHOD"),)
        case "COMPARE_OP" if step.argrepr.startswith("bool("):
            return (replace(step, argrepr=step.argval), second(opname="TO_BOOL"))
        case "BINARY_OP" if step.argrepr == "[]":
            return (replace(step, opname="BINARY_SUBSCR"),)
        case "BINARY_SLICE" | "STORE_SLICE":
            subscript = "BINARY_SUBSCR" if name == "BINARY_SLICE" else "STORE_SUBSCR"
            taking = second(opname=subscript, opcode=dis.opmap.get(subscript, step.opcode))
            return (replace(step, opname="BUILD_SLICE", arg=2), taking)
        case "RETURN_CONST":
            return (replace(step, opname="LOAD_CONST"), second(opname="RETURN_VALUE"))
        case "LOAD_COMMON_CONSTANT" if step.argrepr == "AssertionError":
            return (replace(step, opname=_FAILING),)
        case "CALL_INTRINSIC_1" if step.argrepr == "INTRINSIC_LIST_TO_TUPLE":
            return (replace(step, opname="LIST_TO_TUPLE"),)
        case "FORMAT_WITH_SPEC":
            return (replace(step, opname="FORMAT_VALUE", arg=WITH_SPEC),)
        case "CALL_FUNCTION_EX" if sys.version_info >= (3, 14):
            return (replace(step, arg=1),)
    return (replace(step, opname=_RENAMED[name]) if name in _RENAMED else step,)


def end_of(code: CodeType, index: int) -> Hashable:
    """Return what runs from an instruction to the end of the function; the index itself if that is not straight.

    Python copies the end of a function for some of the branches that lead there; its copies have the same positions,
    apart from a return that the source does not write.
    """
    steps = instructions(code)
    end = next((at for at in range(index, len(steps)) if _leaves(steps[at])), None)
    if end is None or steps[end].opname != "RETURN_VALUE":
        return index
    run_there = [step for step in steps[index : end + 1] if step.opname not in PASSED]
    places = [step.opname not in {"LOAD_CONST", "RETURN_VALUE"} and step.positions for step in run_there]
    whats = [(step.opname, step.argrepr or step.arg, handler_of(code, step.offset)) for step in run_there]
    return tuple(zip(whats, places, strict=True))


def handler_of(code: CodeType, offset: int) -> int | None:
    """Return the offset of the handler of what is raised at an instruction; None without a handler."""
    return next((entry.target for entry in handled_ranges(code) if entry.start <= offset < entry.end), None)


@functools.lru_cache(maxsize=2**14)
def handled_ranges(code: CodeType) -> tuple[Any, ...]:
    """Return the entries of a code's table of handlers: start, end, the handler, and the stack there."""
    return tuple(dis._parse_exception_table(code))  # type: ignore[attr-defined]  # noqa: SLF001 - there is no other


def index_at(code: CodeType, offset: int) -> int | None:
    """Return the index of the instruction at an offset."""
    return next((index for index, step in enumerate(instructions(code)) if step.offset == offset), None)


def running(frame: FrameType) -> int | None:
    """Return the index of the instruction, or of the part of one, that a frame is running; None if it is unknown.

    While a function of Python is called, the frame shows the end of the space that Python keeps beside the instruction.
    Python 3.11 runs some calls of C already at the instruction before, once code has run often.
    """
    steps = instructions(frame.f_code)
    index = bisect.bisect_right([step.offset for step in steps], frame.f_lasti) - 1
    return index + (steps[index].opname == "PRECALL") if steps else None


def locals_of(frame: FrameType) -> dict[str, Any]:
    """Return a copy of the local names of a frame, as they are now.

    Up to Python 3.12 a function's frame keeps the dict that it shows, and with it what the names held: a weak reference
    would die later than in eager. So the dict is emptied, unless the user's code holds it too (`locals()`).
    """
    shown = frame.f_locals
    names = dict(shown)
    of_function = frame.f_code.co_flags & inspect.CO_OPTIMIZED
    if sys.version_info < (3, 13) and of_function and sys.getrefcount(shown) <= _HELD_BY_THE_FRAME:
        shown.clear()
    return names


def names_of(frame: FrameType) -> Look:
    """Return the lookup of names in a frame, as they are now."""
    scopes = (locals_of(frame), frame.f_globals, frame.f_builtins)
    return lambda name: next((scope[name] for scope in scopes if name in scope), UNKNOWN)


def stack_before(code: CodeType, index: int, look: Look) -> list[Any]:
    """Return the topmost values on the stack before an instruction, the top last; lower values are left out."""
    steps = instructions(code)
    first = index
    while first > 0 and not steps[first].is_jump_target and not _leaves(steps[first - 1]):
        first -= 1
    stack = _in_a_loop(code, first - 1, look)
    for at in range(first, index):
        if stack and _is_first_stored(steps, at):
            stack.pop()
        else:
            run(steps[at], stack, look)
    return stack


def _is_first_stored(steps: Sequence[Instruction], at: int) -> bool:
    """True if an instruction assigns a local name that none before it loads: no value on the stack is that name's."""
    loaded = (each.argval for each in steps[:at] if each.opname in LOCAL)
    return steps[at].opname == "STORE_FAST" and all(name != steps[at].argval for name in loaded)


def _in_a_loop(code: CodeType, head: int, look: Look) -> list[Any]:
    """Return the values that a loop has beneath its iterator, and those that its head pushes.

    A comprehension is a loop within an expression. Python may have put elements into a list of before the loop.
    """
    steps = instructions(code)
    if head < 1 or steps[head].opname != "FOR_ITER" or _leaves(steps[head - 1]):
        return []
    stack = stack_before(code, head - 1, look)
    run(steps[head - 1], stack, look)
    return [*(UNKNOWN if type(each) is list else each for each in stack), UNKNOWN]


def is_jump(step: Instruction) -> bool:
    """True if an instruction other than the next may follow."""
    return step.opcode in dis.hasjrel or step.opcode in dis.hasjabs


def _leaves(step: Instruction) -> bool:
    return is_jump(step) or step.opname in _ENDING


def run(step: Instruction, stack: list[Any], look: Look) -> bool:
    """Apply an instruction to the values on the stack; what is computed from TEXT is TEXT.

    Return False for an instruction that may have changed any value: only the number of values is known then.
    """
    arg = step.arg or 0
    match step.opname:
        case name if name in _NAMING:
            stack += [NULL] * (name == "LOAD_GLOBAL" and arg & 1) + [look(step.argval)]
        case "LOAD_CONST":
            stack.append(step.argval)
        case "COPY":
            stack.append(stack[-arg] if len(stack) >= arg else UNKNOWN)
        case "BINARY_OP" if len(stack) > 1 and is_a(stack[-2], InPlaceOf):
            stack[-2:] = [look(stack[-2].name)]
        case "PUSH_NULL":
            stack.append(NULL)
        case "LOAD_ATTR" | "LOAD_METHOD" as name:
            value = _attribute(_pop(stack, 1)[0], step.argval)
            stack += [NULL] * (name == "LOAD_METHOD") + [value]
        case "LOAD_SUPER_ATTR":
            function, *args = _pop(stack, 3)
            stack += [NULL] * (arg & 1) + [Member(Called(function, tuple(args)), step.argval)]
        case "SWAP":
            stack[:0] = [UNKNOWN] * (arg - len(stack))
            stack[-arg], stack[-1] = stack[-1], stack[-arg]
        case "CALL":
            args, slots = _pop(stack, arg), _pop(stack, 2)
            # Without a null there, the upper slot is an argument: the message of an assert statement.
            own = [] if any(each is NULL for each in slots) else slots[1:]
            stack.append(Called(_function(slots), (*own, *args)))
        case "CALL_FUNCTION_EX":
            args, slots = _pop(stack, 1 + (arg & 1)), _pop(stack, 2)
            stack.append(Called(_function(slots), (computed(args),)))
        case "BUILD_TUPLE" | "BUILD_LIST" as name:
            parts = _pop(stack, arg)
            made = parts if name == "BUILD_LIST" else tuple(parts)
            stack.append(computed(parts) if any(map(has_text, parts)) else made)
        case "MAKE_FUNCTION" | "SET_FUNCTION_ATTRIBUTE" as name:
            parts = _pop(stack, 2 if name == "SET_FUNCTION_ATTRIBUTE" else arg.bit_count() + 1)
            stack.append(computed(parts) if any(map(has_text, parts)) else parts[-1])
        case "LIST_APPEND" | "SET_ADD" if any(map(has_text, stack)):
            added, *rest = _pop(stack, 1 + arg)[::-1]
            stack += [computed([rest.pop(), added]), *rest[::-1]]
        case "LIST_EXTEND" | "SET_UPDATE" if arg == 1:
            more, found = _pop(stack, 1)[0], _pop(stack, 1)[0]
            known = type(found) is list and type(more) is tuple
            stack.append([*found, *more] if known else computed([found, more]))
        case "BUILD_MAP" | "BUILD_CONST_KEY_MAP" as name:
            stack.append(_mapping(name, _pop(stack, 2 * arg if name == "BUILD_MAP" else arg + 1)))
        case name if name in _TAKEN:
            stack.append(computed(_pop(stack, _TAKEN[name](arg))))
        case name if name not in PASSED:
            stack[:] = [UNKNOWN] * max(0, len(stack) + dis.stack_effect(step.opcode, step.arg, jump=False))
            return False
    return True


def _function(slots: list[Any]) -> Any:
    """Return the function of a call: one of its two places on the stack may hold Python's marker."""
    return next((slot for slot in slots if slot is not NULL), UNKNOWN)


def _mapping(name: str, parts: list[Any]) -> Any:
    """Return a dict display by its keys; its values are ignored."""
    if any(map(has_text, parts)):
        return computed(parts)
    keys = parts[::2] if name == "BUILD_MAP" else parts[-1]
    return dict.fromkeys(keys) if all(isinstance(key, int | float | str | tuple) for key in keys) else UNKNOWN


def _pop(stack: list[Any], count: int) -> list[Any]:
    """Pop the topmost values, in order; values pushed before the first instruction read are UNKNOWN."""
    taken = [stack.pop() if stack else UNKNOWN for _ in range(count)]
    return taken[::-1]


def _attribute(value: Any, name: str) -> Any:
    """Return an attribute, if it can be read without running code."""
    if type(value) is Called:
        return Member(value, name)
    if value is TEXT:
        return Member(value, getattr(str, name, UNKNOWN))
    if value is UNKNOWN or type(value) is Member:
        return UNKNOWN
    found = inspect.getattr_static(value, name, UNKNOWN)
    if type(found) in {types.FunctionType, types.MethodDescriptorType, types.WrapperDescriptorType}:
        of_class = not is_a(value, type) and inspect.getattr_static(type(value), name, None) is found
        return Member(value, found) if of_class else found
    if type(found) is staticmethod:
        return found.__func__
    binds = inspect.getattr_static(type(found), "__get__", None) is not None
    return found if is_a(found, type) or not binds else UNKNOWN


def failing_answer(frame: FrameType) -> bool | None:
    """Return the answer that makes the assert statement at a frame fail; None if there is none.

    In `assert a or b`, no answer to `a` fails by itself: if `a` is false, the statement asks for `b`.
    """
    steps = instructions(frame.f_code)
    index = running(frame)
    while index is not None and steps[index].opname in _TESTING:
        index += 1
    if index is None or "JUMP" not in steps[index].opname or "_IF_" not in steps[index].opname:
        return None
    jumps_where = "IF_TRUE" in steps[index].opname
    if _fails(frame.f_code, index_at(frame.f_code, steps[index].argval)):
        return jumps_where
    return not jumps_where if _fails(frame.f_code, index + 1) else None


def _fails(code: CodeType, index: int | None) -> bool:
    """True if the code at this instruction raises the AssertionError without computing anything else."""
    while index is not None:
        step = instructions(code)[index]
        if step.opname not in {"POP_TOP", "JUMP_FORWARD", *PASSED}:
            return step.opname == _FAILING
        index = index_at(code, step.argval) if step.opname == "JUMP_FORWARD" else index + 1
    return False
