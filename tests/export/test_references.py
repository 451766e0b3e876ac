"""Functions of torch that are written in other operators give what eager gives."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.export import Dim

from shapeproof.export import check
from shapeproof.export.references import linspace, logspace, reference
from tests.agreement import agree

ends = st.integers(-9, 60) | st.floats(-9, 9, allow_nan=False)
dtypes = st.sampled_from((None, torch.float32, torch.float64))


@given(ends, ends, st.integers(0, 20), dtypes)
def test_steps_are_those_of_eager(start, end, steps, dtype):
    torch.testing.assert_close(linspace(start, end, steps, dtype=dtype), torch.linspace(start, end, steps, dtype=dtype))


@given(ends, ends, st.integers(0, 20), st.sampled_from((torch.float16, torch.bfloat16)))
def test_steps_of_a_small_dtype(start, end, steps, dtype):
    found, wanted = linspace(start, end, steps, dtype=dtype), torch.linspace(start, end, steps, dtype=dtype)
    torch.testing.assert_close(found, wanted, rtol=0.02, atol=0.25)


@given(st.floats(-3, 3), st.floats(-3, 3), st.integers(0, 20), st.sampled_from((10.0, 2.0)), dtypes)
def test_powers_are_those_of_eager(start, end, steps, base, dtype):
    found, wanted = (f(start, end, steps, base, dtype=dtype) for f in (logspace, torch.logspace))
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def test_where_rounding_would_show_the_function_is_torchs():
    assert reference(torch.linspace, (0, 5, 3), {"dtype": torch.int64}) is torch.linspace
    assert reference(torch.linspace, (torch.tensor(0.0), 5, 3), {}) is torch.linspace
    assert reference(torch.logspace, (0, 5, 3), {}) is logspace


class Steps(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x, n):
        count = n.item()
        return self.function(0, 1, x.shape[0]), self.function(count, 2 * x.shape[0], count)


@pytest.mark.parametrize("function", [torch.linspace, torch.logspace])
def test_any_number_of_steps_is_one_program(function):
    model = Steps(function)
    shapes = ({0: Dim("n", min=0, max=9)}, None)
    report = check(model, (torch.randn(3), torch.tensor(3)), dynamic_shapes=shapes)
    assert (report.status, report.statistics["traces"]) == ("proved", 1), str(report)
    for run in (report.program.module(), report.program.run_decompositions().module()):
        for count in (-1, 0, 1, 2, 7):
            assert agree(model, run, (torch.randn(abs(count)), torch.tensor(count)))
