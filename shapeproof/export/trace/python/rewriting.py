"""Rewrite code that asks for plain numbers: it calls symbolic versions of Python's functions, and compares numbers.

`flag is True` tests the identity of two objects. Equal bools and equal small integers are identical in Python; a
symbolic number is identical to neither.
"""

from __future__ import annotations

import dis
import functools
import itertools
import sys
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum, EnumType
from types import CodeType, ModuleType
from typing import Any

import torch

from shapeproof.export.source.raised import Recorder, has_other_handlers, named_handlers

EXCEPT = "except"
"""Stands for a name: the code's handlers are to note what they catch."""
_IN_A_BYTE = 256
_SMALL = range(-5, 257)
"""The integers that Python keeps as one object each."""


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a function, and of the functions defined in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


@functools.cache
def global_names(code: CodeType) -> frozenset[str]:
    """Return the names that may be global in a function, or in a function defined in it."""
    return frozenset(name for each in _codes(code) for name in each.co_names)


@functools.cache
def catches(code: CodeType, *, otherwise: bool) -> bool:
    """True if a function, or one defined in it, has a handler; `otherwise`: one that cannot note what it catches."""
    found = (has_other_handlers(each) or (not otherwise and bool(named_handlers(each))) for each in _codes(code))
    return any(found)


@functools.cache
def assigned(code: CodeType) -> frozenset[str]:
    """Return the global names that a function assigns, or a function defined in it."""
    assigning = (each for each in _codes(code) if _has(each, "STORE_GLOBAL") or _has(each, "DELETE_GLOBAL"))
    steps = (step for each in assigning for step in dis.get_instructions(each))
    return frozenset(step.argval for step in steps if step.opname in {"STORE_GLOBAL", "DELETE_GLOBAL"})


def compares_objects(code: CodeType, scope: Mapping[str, Any]) -> bool:
    """True if a function, or one defined in it, asks if two objects are one: `y is x`, not `y is None`.

    `scope`: its globals. A class or a member of an enumeration is nothing that an operator has made.

    >>> compares_objects((lambda x, y: x is y).__code__, {}), compares_objects((lambda x: x is None).__code__, {})
    (True, False)
    >>> compares_objects((lambda x: type(x) is torch.Tensor).__code__, {"torch": torch})
    False
    """
    return any(path is None or not (path == () or _is_class_or_member(path, scope)) for path in _compared(code))


@functools.cache
def _compared(code: CodeType) -> tuple[tuple[str, ...] | None, ...]:
    """Return each right operand of `is`: () for a constant or a global, the names of an attribute of one, else None."""
    asking = (list(dis.get_instructions(each)) for each in _codes(code) if _has(each, "IS_OP"))
    places = ((steps, at) for steps in asking for at, step in enumerate(steps) if step.opname == "IS_OP")
    return tuple(_loaded(steps[:at]) for steps, at in places)


def _loaded(steps: Sequence[dis.Instruction]) -> tuple[str, ...] | None:
    path = [*itertools.takewhile(lambda step: step.opname == "LOAD_ATTR", reversed(steps))]
    first = steps[-1 - len(path)]
    if path:
        return tuple(step.argval for step in (first, *reversed(path))) if first.opname == "LOAD_GLOBAL" else None
    return () if first.opname in {"LOAD_CONST", "LOAD_GLOBAL"} else None


def _is_class_or_member(path: Sequence[str], scope: Mapping[str, Any]) -> bool:
    """True if these names lead from a global through modules to a class, or to a member of an enumeration."""
    value = scope.get(path[0])
    for name in path[1:]:
        held = vars(value) if isinstance(value, ModuleType) else {}  # what a module has not loaded yet is left out
        value = value.__members__.get(name) if isinstance(value, EnumType) else held.get(name)
    return isinstance(value, type | Enum)


def _has(code: CodeType, opname: str) -> bool:
    """False if a code has no such instruction; reading the bytes takes a hundredth of the time of `dis`."""
    return dis.opmap[opname] in code.co_code[::2]


class _TheSame:
    """Replaces a constant in `x is constant`, which becomes `x in this`."""

    def __init__(self, constant: Any) -> None:
        self._constant = constant

    def __contains__(self, value: Any) -> bool:
        """True if the value is the constant; for a symbolic value, if it is equal to the constant, as in eager."""
        if isinstance(value, torch.SymBool | torch.SymInt):
            return bool(value == self._constant) if isinstance(value, torch.SymInt) else bool(value) is self._constant
        return value is self._constant


@functools.cache
def rewritten(code: CodeType, file: str, others: frozenset[tuple[str, Any]]) -> CodeType:
    """Return code that calls other functions for these global names, and evaluates `x is True` for symbolic numbers.

    A replacement is a function, or the global name of a function.

    A class in a pattern is replaced, too: `int` in `case int(n):` by the replacement of "case int". A read of the
    attribute `__class__` calls the replacement of "__class__". With `EXCEPT` among the names, handlers note what they
    catch. Offsets, lines and names are kept.

    Python treats two codes as equal that differ only in their file, so `file` is a part of the cache key.
    """
    made = _Code(code, dict(others))
    steps = list(dis.get_instructions(code)) if _may_change(code, made.others) else []
    for step, after, later in itertools.zip_longest(steps, steps[1:], steps[2:]):
        if step.opname == "LOAD_GLOBAL" and after is not None:
            in_pattern = later is not None and later.opname == "MATCH_CLASS"
            made.exchange(step, after.offset, in_pattern=in_pattern)
        is_class = step.opname == "LOAD_ATTR" and step.argval == "__class__"  # `torch.float` is no `float`
        if is_class and step.argval in made.others and after is not None:
            made.read(step, after.offset)
        if after is not None and step.opname == "LOAD_CONST" and after.opname == "IS_OP" and not after.is_jump_target:
            made.ask(step, after)
    if EXCEPT in made.others:
        for step in named_handlers(code):
            made.record(step, next(each.offset for each in steps if each.offset > step.offset))
    inner = tuple(rewritten(each, file, others) if isinstance(each, CodeType) else each for each in made.constants)
    if made.body == code.co_code and all(a is b for a, b in zip(inner, code.co_consts, strict=False)):
        return code
    room = code.co_stacksize + 1
    return code.replace(co_code=bytes(made.body), co_names=tuple(made.names), co_consts=inner, co_stacksize=room)


def _may_change(code: CodeType, others: Mapping[str, Any]) -> bool:
    """False if nothing in a code is rewritten, apart from the functions that are defined in it."""
    if any(name.removeprefix("case ") in code.co_names for name in others):
        return True
    return _asks_identity(code) or (EXCEPT in others and bool(code.co_exceptiontable))


def _asks_identity(code: CodeType) -> bool:
    """True if a code has `x is constant` of a constant that Python keeps as one object."""
    if not _has(code, "IS_OP"):
        return False
    operations, arguments = code.co_code[::2], code.co_code[1::2]
    before = (index - 1 for index, operation in enumerate(operations) if operation == dis.opmap["IS_OP"])
    loads = (index for index in before if operations[index] == dis.opmap["LOAD_CONST"])
    return any(_is_one_object(code.co_consts[arguments[index]]) for index in loads)


def _is_one_object(constant: Any) -> bool:
    """True for a number that Python keeps as one object."""
    return isinstance(constant, bool) or (isinstance(constant, int) and constant in _SMALL)


class _Reader:
    """A function as an operand: `reader | value` calls the function on `value`."""

    def __init__(self, function: Any) -> None:
        self._function = function

    def __or__(self, value: Any) -> Any:
        return self._function(value)


_OR = next(step.arg or 0 for step in dis.get_instructions(compile("a | b", "", "eval")) if step.opname == "BINARY_OP")
_NULL_LAST = sys.version_info >= (3, 13)
"""True if Python marks a call by a NULL above the callable; older versions put it below."""


class _Code:
    """The instructions and constants of a code while it is rewritten."""

    def __init__(self, code: CodeType, others: Mapping[str, Any]) -> None:
        self.body = bytearray(code.co_code)
        self.names = list(code.co_names)
        self.constants: list[Any] = list(code.co_consts)
        self.others = others

    def exchange(self, step: dis.Instruction, end: int, *, in_pattern: bool) -> None:
        """Load the replacement of a global function that is called, or of a class in a pattern."""
        called = bool((step.arg or 0) & 1)
        name = f"case {step.argval}" if in_pattern else step.argval
        if called is in_pattern or name not in self.others:
            return
        if isinstance(self.others[name], str):
            self._rename(step, self.others[name])
            return
        load, null = self._load(self.others[name]), [(dis.opmap["PUSH_NULL"], 0)] if called else []
        self._put(step.offset, end, load + null if _NULL_LAST else null + load)

    def _rename(self, step: dis.Instruction, other: str) -> None:
        if other not in self.names:
            self.names.append(other)
        argument = self.names.index(other) << 1 | (step.arg or 0) & 1  # the last bit marks a call
        if max(argument, step.arg or 0) < _IN_A_BYTE:
            self.body[step.offset + 1] = argument

    def read(self, step: dis.Instruction, end: int) -> None:
        """Replace a read of an attribute by a call of its function: `function | value`, which has the same length."""
        load = self._load(_Reader(self.others[step.argval]))
        apply = [(dis.opmap["SWAP"], 2), (dis.opmap["BINARY_OP"], _OR), (dis.opmap["CACHE"], 0)]
        self._put(step.offset, end, load + apply)

    def record(self, step: dis.Instruction, end: int) -> None:
        """Replace the global name that an `except` loads by `recorder | error`, of the same length and value."""
        apply = [(dis.opmap["COPY"], 2), (dis.opmap["BINARY_OP"], _OR), (dis.opmap["CACHE"], 0)]
        self._put(step.offset, end, self._load(Recorder(step.argval)) + apply)

    def _load(self, constant: Any) -> list[tuple[int, int]]:
        index = len(self.constants)
        self.constants.append(constant)
        wide = [(dis.opmap["EXTENDED_ARG"], index >> 8)] if index > 0xFF else []
        return [*wide, (dis.opmap["LOAD_CONST"], index & 0xFF)]

    def _put(self, start: int, end: int, made: list[tuple[int, int]]) -> None:
        """Put instructions in place of one instruction, and fill the rest of its room with NOPs."""
        while start and self.body[start - 2] == dis.opmap["EXTENDED_ARG"]:
            start -= 2
        nothing = [(dis.opmap["NOP"], 0)] * ((end - start) // 2 - len(made))
        self.body[start:end] = bytes(itertools.chain(*made, *nothing))

    def ask(self, step: dis.Instruction, after: dis.Instruction) -> None:
        """Replace `x is constant` by `x in _TheSame(constant)`, where Python keeps one object for the constant."""
        constant = step.argval
        if not _is_one_object(constant):
            return
        if max(len(self.constants), step.arg or 0) >= _IN_A_BYTE:
            return
        self.constants.append(_TheSame(constant))
        self.body[step.offset + 1] = len(self.constants) - 1
        self.body[after.offset] = dis.opmap["CONTAINS_OP"]
