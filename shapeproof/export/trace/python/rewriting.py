"""Rewrite code that asks for plain numbers: it calls symbolic versions of Python's functions, and compares numbers.

`flag is True` tests the identity of two objects. Equal bools and equal small integers are identical in Python; a
symbolic number is identical to neither.
"""

from __future__ import annotations

import functools
import itertools
import operator
import platform
import sys
from collections.abc import Mapping, Sequence
from enum import Enum, EnumType
from types import CodeType, ModuleType
from typing import Any

import torch

from shapeproof.export.source.abstract import is_a
from shapeproof.export.source.instructions import (
    READ,
    Brief,
    Operation,
    Step,
    assembled,
    briefly,
    codes_within,
    has,
    instructions,
    is_target,
    steps_of,
)
from shapeproof.export.source.raised import Recorder, has_other_handlers, named_handlers
from shapeproof.export.trace.python.plain_objects import own_names

EXCEPT = "except"
"""Stands for a name: the code's handlers are to note what they catch."""
_ASSIGNING = {"store global", "delete global"}
_SMALL = range(-5, 257)
"""The integers that Python keeps as one object each."""


@functools.lru_cache(maxsize=2**14)
def global_names(code: CodeType) -> frozenset[str]:
    """Return the names that may be global in a function, or in a function defined in it."""
    return frozenset(name for each in codes_within(code) for name in each.co_names)


@functools.lru_cache(maxsize=2**14)
def catches(code: CodeType, *, otherwise: bool) -> bool:
    """True if a function, or one defined in it, has a handler; `otherwise`: one that cannot note what it catches."""
    found = (has_other_handlers(each) or (not otherwise and bool(named_handlers(each))) for each in codes_within(code))
    return any(found)


@functools.lru_cache(maxsize=2**14)
def assigned(code: CodeType) -> frozenset[str]:
    """Return the global names that a function assigns, or a function defined in it."""
    assigning = (each for each in codes_within(code) if any(has(each, does) for does in _ASSIGNING))
    return frozenset(step.value for each in assigning for step in steps_of(each) if step.does in _ASSIGNING)


def compares_objects(code: CodeType, scope: Mapping[str, Any]) -> bool:
    """True if a function, or one defined in it, asks if two objects are one: `y is x`, not `y is None`.

    `scope`: its globals. A class or a member of an enumeration is nothing that an operator has made.

    >>> compares_objects((lambda x, y: x is y).__code__, {}), compares_objects((lambda x: x is None).__code__, {})
    (True, False)
    >>> compares_objects((lambda x: type(x) is torch.Tensor).__code__, {"torch": torch})
    False
    """
    return not READ or any(
        path is None or not (path == () or _is_class_or_member(path, scope)) for path in _compared(code)
    )


@functools.lru_cache(maxsize=2**14)
def _compared(code: CodeType) -> tuple[tuple[str, ...] | None, ...]:
    """Return each right operand of `is`: () for a constant or a global, the names of an attribute of one, else None."""
    asking = (instructions(each) for each in codes_within(code) if has(each, "is"))
    places = ((steps, at) for steps in asking for at, step in enumerate(steps) if step.does == "is")
    return tuple(_loaded(steps[:at]) for steps, at in places)


def _loaded(steps: Sequence[Step]) -> tuple[str, ...] | None:
    path = [*itertools.takewhile(lambda step: step.does == "attribute", reversed(steps))]
    first = steps[-1 - len(path)]
    if path:
        return tuple(step.value for step in (first, *reversed(path))) if first.does == "global" else None
    return () if first.does in {"const", "common", "global"} else None


def _is_class_or_member(path: Sequence[str], scope: Mapping[str, Any]) -> bool:
    """True if these names lead from a global through modules to a class, or to a member of an enumeration."""
    value = scope.get(path[0])
    for name in path[1:]:
        value = _named_in(value).get(name)
    return is_a(value, (type, Enum))


def _named_in(value: Any) -> Mapping[str, Any]:
    """Return what a module has loaded, or the members of an enumeration, by their names."""
    names = own_names(value) if is_a(value, (ModuleType, EnumType)) else None
    found: Mapping[str, Any] = (names or {}).get("_member_map_", {}) if is_a(value, EnumType) else names or {}
    return found


class _TheSame:
    """Replaces a constant in `x is constant`, which becomes `x in this`."""

    def __init__(self, constant: Any) -> None:
        self._constant = constant

    def __contains__(self, value: Any) -> bool:
        """True if the value is the constant; for a symbolic value, if it is equal to the constant, as in eager."""
        if isinstance(value, torch.SymBool | torch.SymInt):
            return bool(value == self._constant) if isinstance(value, torch.SymInt) else bool(value) is self._constant
        return value is self._constant


@functools.lru_cache(maxsize=2**14)
def rewritten(code: CodeType, file: str, others: frozenset[tuple[str, Any]]) -> CodeType:
    """Return code that calls other functions for these global names, and evaluates `x is True` for symbolic numbers.

    A replacement is a function, or the global name of a function.

    A class in a pattern is replaced, too: `int` in `case int(n):` by the replacement of "case int". A read of the
    attribute `__class__` calls the replacement of "__class__". With `EXCEPT` among the names, handlers note what they
    catch. Lines and names are kept. On a Python whose instructions are unknown, so is all the code.

    Python treats two codes as equal that differ only in their file, so `file` is a part of the cache key.
    """
    made = _Code(code, dict(others))
    steps = briefly(code) if _may_change(code, made.others) else ()
    for step, after, later in itertools.zip_longest(steps, steps[1:], steps[2:]):
        if step.does == "global":
            made.exchange(step, in_pattern=later is not None and later.does == "match class")
        if step.does == "attribute" and step.value == "__class__" and not step.called:  # `torch.float` is no `float`
            made.read(step)
        if step.does == "const" and after is not None and after.does == "is":
            made.ask(step, after)
    for step in named_handlers(code) if EXCEPT in made.others else ():
        made.record(step)
    inner = tuple(rewritten(each, file, others) if isinstance(each, CodeType) else each for each in made.constants)
    if not made.changes:
        return code if all(map(operator.is_, inner, code.co_consts)) else code.replace(co_consts=inner)
    room = code.co_stacksize + 1
    return assembled(code, made.changes, co_names=tuple(made.names), co_consts=inner, co_stacksize=room)


def unread_notes() -> tuple[str, ...]:
    """Return the note of a report on a Python whose instructions are unknown; none on any other."""
    if READ:
        return ()
    what = "`int(n)` and `len(x)` fix a size, and each branch and handler counts as having an effect"
    return (f"the model's code is not rewritten, for Python {platform.python_version()} is not supported: {what}",)


def _may_change(code: CodeType, others: Mapping[str, Any]) -> bool:
    """False if nothing in a code is rewritten, apart from the functions that are defined in it."""
    if any(name.removeprefix("case ") in code.co_names for name in others):
        return True
    return has(code, "is") or (EXCEPT in others and bool(code.co_exceptiontable))


def _is_one_object(constant: Any) -> bool:
    """True for a number that Python keeps as one object."""
    return isinstance(constant, bool) or (isinstance(constant, int) and constant in _SMALL)


class _Reader:
    """A function as an operand: `reader | value` calls the function on `value`."""

    def __init__(self, function: Any) -> None:
        self._function = function

    def __or__(self, value: Any) -> Any:
        return self._function(value)


_OR = next(step.arg for step in steps_of(compile("a | b", "", "eval")) if step.does == "operate")
_NULL_LAST = sys.version_info >= (3, 13)
"""True if Python marks a call by a NULL above the callable; older versions put it below."""


class _Code:
    """The changes to a code's instructions, with its names and constants, while it is rewritten."""

    def __init__(self, code: CodeType, others: Mapping[str, Any]) -> None:
        self._code = code
        self.changes: dict[int, list[Operation]] = {}
        self.names = list(code.co_names)
        self.constants: list[Any] = list(code.co_consts)
        self.others = others

    def exchange(self, step: Brief, *, in_pattern: bool) -> None:
        """Load the replacement of a global function that is called, or of a class in a pattern."""
        name = f"case {step.value}" if in_pattern else step.value
        if step.called is in_pattern or name not in self.others:
            return
        if isinstance(self.others[name], str):
            self.changes[step.offset] = [("global", self._name(self.others[name]) << 1 | step.called)]
            return
        load, null = [self._load(self.others[name])], [("null", 0)] * step.called
        self.changes[step.offset] = load + null if _NULL_LAST else null + load

    def read(self, step: Brief) -> None:
        """Replace a read of an attribute by a call of its function: `function | value`."""
        if step.value in self.others:
            load = self._load(_Reader(self.others[step.value]))
            self.changes[step.offset] = [load, ("swap", 2), ("operate", _OR)]

    def record(self, step: Step) -> None:
        """Replace the global name that an `except` loads by `recorder | error`, of the same value."""
        self.changes[step.offset] = [self._load(Recorder(step.value)), ("copy", 2), ("operate", _OR)]

    def ask(self, step: Brief, after: Brief) -> None:
        """Replace `x is constant` by `x in _TheSame(constant)`, where Python keeps one object for the constant."""
        if _is_one_object(step.value) and not is_target(self._code, after.offset):
            self.changes[step.offset] = [self._load(_TheSame(step.value))]
            self.changes[after.offset] = [("contains", after.arg)]

    def _name(self, name: str) -> int:
        if name not in self.names:
            self.names.append(name)
        return self.names.index(name)

    def _load(self, constant: Any) -> Operation:
        self.constants.append(constant)
        return "const", len(self.constants) - 1
