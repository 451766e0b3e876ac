"""On each path through Python's own modules, the abstract stack is as deep as `dis` says, on every Python."""

from __future__ import annotations

import argparse
import asyncio.tasks
import contextlib
import dis
import inspect
import json.decoder
import json.encoder
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, ModuleType

import pytest

from shapeproof.export.source.abstract import UNKNOWN, EndError, Objects
from shapeproof.export.source.instructions import codes_within, handled_ranges, index_at, instructions

MODULES = [json.decoder, json.encoder, argparse, textwrap, contextlib, asyncio.tasks]
SUSPENDED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
"""Of these codes, `dis` counts what Python pushes where it resumes them in another way before Python 3.13."""


class Everywhere(Objects):
    """The machine, on both sides of each test."""

    def sides(self, *_):
        return True, False


def codes_of(module: ModuleType) -> Iterator[CodeType]:
    return codes_within(compile(Path(module.__file__).read_text(encoding="utf-8"), module.__file__, "exec"))


def starts(code: CodeType) -> list[tuple[int, int]]:
    """The offsets at which paths start, and how many values are on the stack there: the function, and its handlers."""
    return [(0, 0), *((entry.target, entry.depth + entry.lasti + 1) for entry in handled_ranges(code))]


def depths_by_dis(code: CodeType) -> dict[int, int]:
    """How many values are on the stack before each instruction that can be reached."""
    steps = {step.offset: step for step in dis.get_instructions(code)}
    following = dict(zip(steps, [*steps][1:], strict=False))
    depths, pending = {}, starts(code)
    while pending:
        offset, depth = pending.pop()
        known, step = depths.setdefault(offset, depth), steps[offset]
        assert known == depth
        ways = [(step.argval, True)] if step.opcode in dis.hasjrel else []
        if not step.opname.startswith(("RETURN_VALUE", "RETURN_CONST", "RAISE", "RERAISE")) and (
            not step.opname.startswith("JUMP_") or "IF" in step.opname
        ):
            ways.append((following[offset], False))
        later = ((at, depth + dis.stack_effect(step.opcode, step.arg, jump=jumps)) for at, jumps in ways)
        pending += [each for each in later if depths.get(each[0]) != each[1]]
    return depths


def depths_by_steps(code: CodeType) -> dict[int, int]:
    """The same before each step that can be reached, with a value for each place on the stack."""
    machine = Everywhere(code, lambda _: UNKNOWN)
    pending = [(index_at(code, offset), [UNKNOWN] * depth) for offset, depth in starts(code)]
    depths: dict[int, int] = {}
    while pending:
        index, stack = pending.pop()
        assert depths.setdefault(index, len(stack)) == len(stack), machine.steps[index]
        try:
            later = machine.after(index, stack)
        except EndError:  # what awaits is not followed
            continue
        pending += [each for each in later if depths.get(each[0]) != len(each[1])]
    return depths


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_the_abstract_stack_is_as_deep_as_pythons_own(module):
    compared = 0
    for code in codes_of(module):
        depths, steps = depths_by_steps(code), instructions(code)
        assert all(depth == 1 for at, depth in depths.items() if steps[at].does == "return")
        if code.co_flags & SUSPENDED and sys.version_info < (3, 13):
            continue
        by_dis = depths_by_dis(code)
        for at, depth in depths.items():
            # A call does not have the names of its arguments on the stack, and a `with` is one step.
            if steps[at].does not in {"call", "enter"} and (at == 0 or steps[at - 1].offset < steps[at].offset):
                assert by_dis.get(steps[at].offset, depth) == depth, steps[at]
                compared += steps[at].offset in by_dis
    assert compared > 200


def test_each_operand_is_popped_where_a_call_has_names_and_a_method_has_a_null():
    def function(x):
        return x.f(1, y=2).g, x.h()

    steps = instructions(function.__code__)
    calls = [step for step in steps if step.does == "call"]
    assert [(step.names, step.arg, step.effect) for step in calls] == [(("y",), 2, -3), ((), 0, -1)]
    assert [step.called for step in steps if step.does == "attribute"] == [True, False, True]


def test_what_two_operands_choose_between_is_a_copy_a_test_and_a_pop_on_every_python():
    steps = instructions((lambda a, b: a and b).__code__)
    told = [step.does for step in steps if step.does != "truth"]
    assert told == ["local", "copy", "if false", "pop", "local", "return"]
    assert next(step.value for step in steps if step.jumps) == len(steps) - 1
