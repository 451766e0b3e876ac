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
from collections.abc import Callable, Mapping
from dataclasses import dataclass
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

_HELD_BY_THE_FRAME = 3
"""The references to a dict that only its frame holds, seen where one name and one argument hold it, too."""
Look = Callable[[str], Any]
"""Returns the value of a name; UNKNOWN if it has none."""


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
    match value:
        case Called(function, args):
            return has_text(function) or any(map(has_text, args))
        case Member(owner, _):
            return has_text(owner)
    return value is TEXT


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
    "FORMAT_VALUE": lambda flags: 2 if flags & 4 else 1,
    "CONVERT_VALUE": lambda _: 1,
    "FORMAT_SIMPLE": lambda _: 1,
    "FORMAT_WITH_SPEC": lambda _: 2,
    "LOAD_CLOSURE": lambda _: 0,
    "GET_ITER": lambda _: 1,
    "LIST_TO_TUPLE": lambda _: 1,
}
"""How many operands some instructions pop; each of them pushes one unknown value."""
LOCAL = {"LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW", "LOAD_DEREF"}
"""The instructions that push the value of a local name."""
_NAMING = {"LOAD_GLOBAL", "LOAD_NAME", *LOCAL}
PASSED = {"NOP", "RESUME", "CACHE", "PRECALL", "KW_NAMES", "COPY_FREE_VARS", "EXTENDED_ARG", "NOT_TAKEN"}
"""The instructions that leave the values on the stack alone."""
_ENDING = {"RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE"}


@functools.cache
def instructions(code: CodeType) -> tuple[dis.Instruction, ...]:
    """The instructions of a code object, in order."""
    return tuple(dis.get_instructions(code))


def index_at(code: CodeType, offset: int) -> int | None:
    """Return the index of the instruction at an offset."""
    return next((index for index, step in enumerate(instructions(code)) if step.offset == offset), None)


def running(frame: FrameType) -> int:
    """Return the index of the instruction that a frame is running.

    While a function of Python is called, the frame shows the end of the space that Python keeps beside the instruction.
    Python 3.11 runs some calls of C already at the instruction before, once code has run often.
    """
    steps = instructions(frame.f_code)
    index = bisect.bisect_right([step.offset for step in steps], frame.f_lasti) - 1
    return index + (steps[index].opname == "PRECALL")


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
    stack: list[Any] = []
    for step in steps[first:index]:
        run(step, stack, look)
    return stack


def is_jump(step: dis.Instruction) -> bool:
    """True if an instruction other than the next may follow."""
    return step.opcode in dis.hasjrel or step.opcode in dis.hasjabs


def _leaves(step: dis.Instruction) -> bool:
    return is_jump(step) or step.opname in _ENDING


def run(step: dis.Instruction, stack: list[Any], look: Look) -> bool:
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
        case "BINARY_OP" if len(stack) > 1 and isinstance(stack[-2], InPlaceOf):
            stack[-2:] = [look(stack[-2].name)]
        case "PUSH_NULL":
            stack.append(NULL)
        case "LOAD_ATTR" | "LOAD_METHOD" as name:
            method = name == "LOAD_METHOD" or (sys.version_info >= (3, 12) and arg & 1)
            value = _attribute(_pop(stack, 1)[0], step.argval)
            stack += [NULL] * bool(method) + [value]
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
        case "MAKE_FUNCTION":
            parts = _pop(stack, arg.bit_count() + 1)
            stack.append(computed(parts) if any(map(has_text, parts)) else parts[-1])
        case "LIST_APPEND" | "SET_ADD" if any(map(has_text, stack)):
            added, *rest = _pop(stack, 1 + arg)[::-1]
            stack += [computed([rest.pop(), added]), *rest[::-1]]
        case "LIST_EXTEND" | "SET_UPDATE" if arg == 1:
            more, found = _pop(stack, 1)[0], _pop(stack, 1)[0]
            known = isinstance(found, list) and isinstance(more, tuple)
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
    if isinstance(value, Called):
        return Member(value, name)
    if value is TEXT:
        return Member(value, getattr(str, name, UNKNOWN))
    if value is UNKNOWN or isinstance(value, Member):
        return UNKNOWN
    found = inspect.getattr_static(value, name, UNKNOWN)
    if isinstance(found, types.FunctionType | types.MethodDescriptorType | types.WrapperDescriptorType):
        of_class = not isinstance(value, type) and inspect.getattr_static(type(value), name, None) is found
        return Member(value, found) if of_class else found
    if isinstance(found, staticmethod):
        return found.__func__
    return found if isinstance(found, type) or not hasattr(type(found), "__get__") else UNKNOWN


def failing_answer(frame: FrameType) -> bool | None:
    """Return the answer that makes the assert statement at a frame fail; None if there is none.

    In `assert a or b`, no answer to `a` fails by itself: if `a` is false, the statement asks for `b`.
    """
    steps = instructions(frame.f_code)
    index = index_at(frame.f_code, frame.f_lasti)
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
        if step.opname not in {"POP_TOP", "JUMP_FORWARD"}:
            return step.opname == _FAILING
        index = index + 1 if step.opname == "POP_TOP" else index_at(code, step.argval)
    return False
