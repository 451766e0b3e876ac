"""Python's `^`, `~` and powers of negative numbers, which torch takes into no program, or writes wrongly into one."""

from __future__ import annotations

import io
import math

import pytest
import torch
from torch.export import Dim

from shapeproof.constraints.errors import UsageError
from shapeproof.export import check
from tests.agreement import agree


def model_of(forward):
    return type("Model", (torch.nn.Module,), {"forward": staticmethod(forward)})()


NUMBERS = {
    "xor of a size": lambda x, k: x * (x.shape[0] ^ 3) * (5 ^ x.shape[0]) + k,
    "xor of a size in a slice": lambda x, k: x[: x.shape[0] ^ 1] + k,
    "xor of numbers from data": lambda x, k: x * (k.item() ^ 3) + (k.item() ^ x.shape[0]),
    "all bits of a size": lambda x, k: x * ~x.shape[0] + k,
    "all bits of a number from data": lambda x, k: x * ~k.item(),
    "a power of a negative integer": lambda x, k: x * (-2) ** x.shape[0] + k,
    "a power of a negative float": lambda x, k: x * (-2.0) ** x.shape[0] + k,
    "a power by a float": lambda x, k: x * (-0.5) ** float(x.shape[0]) + k,
    "a logarithm as other-program.md advises": lambda x, k: x * torch.full((), x.shape[0]).log() + k,
    "math.pow": lambda x, k: x * math.pow(-3, x.shape[0]) + k,
}


@pytest.mark.parametrize("forward", NUMBERS.values(), ids=NUMBERS)
def test_numbers_are_as_in_python(forward):
    """The faults: `SpecViolationError` of torch, `bad operand type`, `Expected cond to be True`, and `-2 ** n`."""
    mod = model_of(forward)
    shapes = ({0: Dim("n", min=1, max=8)}, None)
    report = check(mod, (torch.ones(3, 2), torch.tensor(2)), dynamic_shapes=shapes)
    assert report.status == "proved", str(report)
    torch.export.save(report.program, file := io.BytesIO())
    file.seek(0)
    inputs = [(torch.randn(n, 2), torch.tensor(k)) for n in range(1, 9) for k in (-3, 0, 5)]
    for program in (report.program.module(), torch.export.load(file).module()):
        assert all(agree(mod, program, each) for each in inputs)


def test_a_power_that_may_be_complex_is_refused():
    mod = model_of(lambda x: x * ((-2.0) ** (x.shape[0] * 0.5)).real)
    with pytest.raises(UsageError, match="torch cannot trace the model"):
        check(mod, (torch.ones(4, 2),), dynamic_shapes=({0: Dim("n", min=1, max=8)},))
