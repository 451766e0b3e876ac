"""Code that asks for plain numbers, made anew: it calls what stands for Python's functions, and compares numbers.

`flag is True` asks whether two objects are the same. That is so of Python's bools and of its small integers where they
are equal, and never of a symbolic number. Nothing is run here.
"""

from __future__ import annotations

import dis
import functools
import itertools
from collections.abc import Iterator, Mapping
from types import CodeType
from typing import Any

import torch

_IN_A_BYTE = 256
_SMALL = range(-5, 257)
"""The integers of which Python has one object each."""


def _codes(code: CodeType) -> Iterator[CodeType]:
    """The code of a function, and of those defined in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


@functools.cache
def global_names(code: CodeType) -> frozenset[str]:
    """The names that may be global in a function, or in one defined in it."""
    return frozenset(name for each in _codes(code) for name in each.co_names)


@functools.cache
def assigned(code: CodeType) -> frozenset[str]:
    """The global names that a function assigns, or one defined in it."""
    steps = (step for each in _codes(code) for step in dis.get_instructions(each))
    return frozenset(step.argval for step in steps if step.opname in {"STORE_GLOBAL", "DELETE_GLOBAL"})


class _TheSame:
    """In place of a constant in `x is constant`, which becomes `x in this`."""

    def __init__(self, constant: Any) -> None:
        self._constant = constant

    def __contains__(self, value: Any) -> bool:
        """Whether the value is the constant: a symbolic one is if it is equal, as in eager."""
        if isinstance(value, torch.SymBool | torch.SymInt):
            return bool(value == self._constant) if isinstance(value, torch.SymInt) else bool(value) is self._constant
        return value is self._constant


@functools.cache
def rewritten(code: CodeType, file: str, names: frozenset[tuple[str, str]]) -> CodeType:
    """The code with these functions called by their other names, `x is True` asked of symbolic numbers, too.

    A class in a pattern goes by another name, too: `int` in `case int(n):` by that of "case int".

    Codes that differ in nothing but the `file` they are from are equal in Python, and must not be taken for each other.
    """
    made = _Code(code, dict(names))
    steps = list(dis.get_instructions(code))
    for step, after, later in itertools.zip_longest(steps, steps[1:], steps[2:]):
        made.call(step)
        if later is not None and later.opname == "MATCH_CLASS":
            made.match(step)
        if after is not None and step.opname == "LOAD_CONST" and after.opname == "IS_OP" and not after.is_jump_target:
            made.ask(step, after)
    inner = tuple(rewritten(each, file, names) if isinstance(each, CodeType) else each for each in made.constants)
    if made.body == code.co_code and all(a is b for a, b in zip(inner, code.co_consts, strict=False)):
        return code
    return code.replace(co_code=bytes(made.body), co_names=tuple(made.names), co_consts=inner)


class _Code:
    """The instructions of a code, its names and its constants, while it is made anew."""

    def __init__(self, code: CodeType, others: Mapping[str, str]) -> None:
        self.body = bytearray(code.co_code)
        self.names = list(code.co_names)
        self.constants: list[Any] = list(code.co_consts)
        self._others = others

    def call(self, step: dis.Instruction) -> None:
        """Where a global function is called that goes by another name, call that."""
        if step.opname == "LOAD_GLOBAL" and step.arg is not None and step.arg & 1:
            self._rename(step, self._others.get(step.argval))

    def match(self, step: dis.Instruction) -> None:
        """Where a pattern names a global class that goes by another name, take that."""
        if step.opname == "LOAD_GLOBAL":
            self._rename(step, self._others.get(f"case {step.argval}"))

    def _rename(self, step: dis.Instruction, other: str | None) -> None:
        if other is None or step.arg is None:
            return
        if other not in self.names:
            self.names.append(other)
        argument = self.names.index(other) << 1 | step.arg & 1  # the last bit says whether it is called
        if max(argument, step.arg) < _IN_A_BYTE:
            self.body[step.offset + 1] = argument

    def ask(self, step: dis.Instruction, after: dis.Instruction) -> None:
        """Where a value is compared with a constant of which there is one object, ask the constant."""
        constant = step.argval
        if not isinstance(constant, bool) and not (isinstance(constant, int) and constant in _SMALL):
            return
        if max(len(self.constants), step.arg or 0) >= _IN_A_BYTE:
            return
        self.constants.append(_TheSame(constant))
        self.body[step.offset + 1] = len(self.constants) - 1
        self.body[after.offset] = dis.opmap["CONTAINS_OP"]
