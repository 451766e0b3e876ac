"""On each path through Python's own modules, the abstract stack is as deep as `dis` says, on every Python."""

from __future__ import annotations

import argparse
import asyncio.tasks
import contextlib
import dis
import inspect
import json.decoder
import json.encoder
import operator
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shapeproof.export.source.abstract import UNKNOWN, EndError, Objects, require
from shapeproof.export.source.instructions import codes_within, handled_ranges, index_at, instructions

MODULES = [json.decoder, json.encoder, argparse, textwrap, contextlib, asyncio.tasks]
COMPUTED = {"+": operator.add, "-": operator.sub, "*": operator.mul}
COMPARED = {"<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt}
SCOPE = {"a": 0, "b": 1, "c": -3, "d": None}
NUMBERS = st.recursive(
    st.sampled_from(["a", "b", "c", "2", "300"]),
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from([*COMPUTED, "and", "or"]), inner),
        st.builds(
            "({} {} {} {} {})".format, inner, st.sampled_from([*COMPARED]), inner, st.sampled_from([*COMPARED]), inner
        ),
        st.builds("({} if {} else {})".format, inner, inner, inner),
        st.builds("({} if d is {} else {})".format, inner, st.sampled_from(["None", "not None"]), inner),
        st.builds("({}, {})[not {}]".format, inner, inner, inner),
        st.builds("(-{})".format, inner),
    ),
    max_leaves=12,
)
SUSPENDED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
"""Of these codes, `dis` counts what Python pushes where it resumes them in another way before Python 3.13."""


class Everywhere(Objects):
    """The machine, on both sides of each test; it pops nothing that is not there."""

    def below(self):
        raise AssertionError("the stack is empty")

    def other(self, step, stack):
        assert len(stack) + step.effect >= 0, step
        super().other(step, stack)

    def sides(self, *_):
        return True, False


class Python(Objects):
    """The machine with Python's own numbers, bools and tuples as values."""

    def computed(self, step, operands):
        if step.does == "compute" and len(operands) == 1:  # the source writes no other sign of one operand
            return -operands[0]
        known = {
            "not": operator.not_,
            "truth": bool,
            "subscript": operator.getitem,
            "compare": COMPARED.get(step.value),
        }
        function = {**known, "operate": COMPUTED.get(step.value)}.get(step.does)
        return super().computed(step, operands) if function is None else function(*operands)

    def other(self, step, stack):
        require(step.does == "pop")
        self.popped(stack, 1)

    def sides(self, step, tested):
        if step.does.endswith("none"):
            return [(tested is None) is (step.does == "if none")]
        return [bool(tested) is (step.does == "if true")]

    def returned(self):
        ((index, stack),) = self.after(0, [])
        while self.steps[index].does != "return":
            ((index, stack),) = self.after(index, stack)
        (value,) = stack
        return value


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


@given(NUMBERS)
def test_with_pythons_own_values_the_machine_computes_what_python_computes(expression):
    code = compile(f"lambda: {expression}", "", "eval").co_consts[0]
    found = Python(code, SCOPE.__getitem__).returned()
    expected = eval(expression, {}, dict(SCOPE))  # noqa: S307 - it is written above
    assert (type(found), found) == (type(expected), expected)


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
