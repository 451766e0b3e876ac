"""The use of a text made from a number: text that only goes into an error or a log does not affect the result."""

from __future__ import annotations

import builtins
import logging
from types import CodeType, FrameType
from typing import Any

from shapeproof.export.shim.numbers.symbols import PLAIN
from shapeproof.export.source.bytecode import Called, Look, Member, index_at, instructions, names_of, stack_before
from shapeproof.export.source.frames import in_torch, is_users

_FOR_A_CHECK = {"_check_with", "sentence"}
"""Functions that request the message of a torch._check."""
_SAYING = {"logging", "warnings"}
"""Modules whose functions only print or log."""


def number_in_text(number: Any, frame: FrameType) -> Any:
    """Specialize a number whose text the user's code may act on: each value gets a separate program.

    Return None if the text is only printed, logged or raised, or if the code is not the user's.
    """
    return None if not is_users(frame) or _is_only_said(frame) else plain(number)


def number_used(number: Any, frame: FrameType) -> Any:
    """Specialize a number that the user's code uses as a plain one; return None if the code is not the user's."""
    return plain(number) if is_users(frame) else None


def plain(number: Any) -> Any:
    """Specialize a symbolic number: ask for its value, so that each answer gets a separate program."""
    return PLAIN[type(number)](number)


def _is_only_said(frame: FrameType) -> bool:
    caller = frame.f_back
    if frame.f_code.co_name == "<lambda>" and caller is not None and caller.f_code.co_name in _FOR_A_CHECK:
        return True
    index = index_at(frame.f_code, frame.f_lasti)
    return index is not None and _said(frame.f_code, index, names_of(frame), frozenset())


def _said(code: CodeType, index: int, look: Look, seen: frozenset[str]) -> bool:
    """True if the straight line of code that follows only prints, logs or raises the value on the stack."""
    for position, step in enumerate(instructions(code)[index:], index):
        match step.opname:
            case "RAISE_VARARGS":
                return True
            case "POP_TOP":
                return _says(code, position, look)
            case "BEFORE_WITH":
                stack = stack_before(code, position, look)
                return bool(stack) and isinstance(stack[-1], Called) and _is_of_torch(stack[-1].function)
            case "STORE_FAST":
                return step.argval in seen or all(
                    _said(code, later, look, seen | {step.argval}) for later in _loads(code, step.argval)
                )
            case name if name.startswith(("STORE_", "RETURN_", "YIELD_", "POP_JUMP", "JUMP", "FOR_", "SEND")):
                return False
    return False


def _loads(code: CodeType, name: str) -> list[int]:
    return [
        index
        for index, step in enumerate(instructions(code))
        if step.opname.startswith("LOAD_FAST") and step.argval == name
    ]


def _says(code: CodeType, index: int, look: Look) -> bool:
    """True if the call whose result is dropped here prints or logs."""
    stack = stack_before(code, index, look)
    match stack[-1] if stack else None:
        case Called(Member(logging.Logger() | logging.LoggerAdapter(), _), _):
            return True
        case Called(Member(Called(function, _), _), _) | Called(function, _):
            return function is builtins.print or getattr(function, "__module__", "") in _SAYING
    return False


def _is_of_torch(function: Any) -> bool:
    code = getattr(function, "__code__", None)
    return str(getattr(function, "__module__", "")).startswith("torch.") or (
        code is not None and in_torch(code.co_filename)
    )
