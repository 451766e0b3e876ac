"""Operators that are said never to fail on data do not, whatever the data are."""

from __future__ import annotations

import itertools

import pytest
import torch

from shapeproof.export.trace.checks.failures import may_fail

FLOATS = torch.tensor([0.0, -0.0, float("nan"), float("inf"), -float("inf"), -1.0, 2.0, 3e38])
WHOLE = torch.tensor([0, -1, 1, 5, -7, 2**31 - 1, -(2**31), 3])
FLAGS = torch.tensor([True, False] * 4)
NUMBERS = (2, 0.5)
TAKEN = {"Tensor", "number", "int", "float", "Optional[Tensor]"}


DOCUMENTED = {torch.Tag.core, torch.Tag.pointwise}
"""Other operators are internal: some read memory that is not theirs where their operands are not what they expect."""


def overloads():
    for name in dir(torch.ops.aten):
        packet = getattr(torch.ops.aten, name) if "_polynomial_" not in name else None  # takes 3e38 steps
        for overload in getattr(packet, "overloads", list)():
            operator = getattr(packet, overload)
            if not name.startswith("_") and DOCUMENTED.intersection(operator.tags):
                yield operator


def calls(operator):
    """Calls of an operator on tame data that it takes, each with the same call on wild data."""
    needed = [each for each in operator._schema.arguments if not each.has_default_value()]
    if not needed or any(str(each.real_type) not in TAKEN or each.kwarg_only for each in needed):
        return
    for wild, number, square in itertools.product((FLOATS, WHOLE, FLAGS), NUMBERS, (False, True)):
        data = wild.repeat(8).reshape(8, 8) if square else wild
        pair = torch.ones_like(data), data
        tame, wilder = ([each.clone() if "Tensor" in str(a.type) else number for a in needed] for each in pair)
        yield tame, wilder


def fails(operator, arguments):
    try:
        operator(*arguments)
    except (RuntimeError, IndexError, ValueError):
        return True
    except (TypeError, NotImplementedError):
        return False
    return False


@pytest.fixture(scope="module", autouse=True)
def _quietly():
    with torch.random.fork_rng(devices=()), torch.no_grad():
        yield


def test_none_that_is_said_never_to_fail_does():
    wrong, right = set(), set()
    for operator in overloads():
        for tame, wild in calls(operator):
            if may_fail(operator, tame, {}, bool) or fails(operator, tame):
                continue
            right.add(str(operator))
            if fails(operator, wild):
                wrong.add(str(operator))
    assert not wrong
    assert len(right) > 250


@pytest.mark.quick
@pytest.mark.parametrize(
    ("call", "fails"),
    [
        (lambda x: torch.ops.aten.div.Tensor_mode(x, x, rounding_mode="floor"), True),
        (lambda x: x % x, True),
        (lambda x: x.float() % x.float(), False),
        (lambda x: x / x, False),
        (lambda x: x % 3, False),
        (lambda x: x[x], True),
        (lambda x: x[2], False),
        (lambda x: x.max(), True),
        (lambda x: torch.linalg.inv(x.double().diag()), True),
        (lambda x: torch.multinomial(x.double(), 1), True),
        (torch.bincount, True),
        (lambda x: x.repeat_interleave(x), True),
    ],
)
def test_what_may_fail_is_known_of_each_call(call, fails):
    seen = []

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(may_fail(func, args, kwargs or {}, bool))
            return func(*args, **kwargs or {})

    with Watch():
        call(torch.tensor([1, 2, 0]) if not fails else torch.tensor([1, 1, 1]))
    assert any(seen) == fails
