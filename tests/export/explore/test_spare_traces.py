"""A trace at the example that was made to find the program serves as the trace of a cell, for all that it decides."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

from shapeproof.export import check
from tests.agreement import agree

SIZES = {"x": {0: Dim("n", min=1, max=64)}}


def doubled(x):
    return (x + 1) * 2


def again(x):
    return (x + 1) * 2


class Sides(torch.nn.Module):
    """The generic point takes one side, and the example the other."""

    def __init__(self, other):
        super().__init__()
        self.other = other

    def forward(self, x):
        if x.shape[0] > 20:
            return self.other(x)
        return doubled(x)


def test_a_cell_that_the_example_lies_in_is_not_traced_again():
    """The fault: a vision transformer was traced at the example, and again in the example's cell."""
    report = check(Sides(again), (torch.randn(30),), dynamic_shapes=SIZES)
    assert (report.status, report.statistics["traces"]) == ("proved", 2), str(report)


@pytest.mark.parametrize(
    "other",
    [
        lambda x: again(x) if x.shape[0] <= 40 else x,
        lambda x: again(x) if x.shape[0] != 40 else x,
        lambda x: again(x) if x.shape[0] % 2 == 0 else x[:-1],
        lambda x: again(x.view(-1, 2)).view(-1),
    ],
    ids=["above", "at one size", "odd", "a check"],
)
def test_what_the_examples_trace_leaves_out_of_the_cell_is_found(other):
    model = Sides(other)
    report = check(model, (torch.randn(30),), dynamic_shapes=SIZES)
    assert report.status == "refuted", str(report)


@pytest.mark.parametrize("size", [21, 30, 64])
def test_a_program_proved_by_the_examples_trace_is_right(size):
    model = Sides(again)
    report = check(model, (torch.randn(size),), dynamic_shapes=SIZES)
    assert report.status == "proved", str(report)
    assert all(agree(model, report.program.module(), (torch.randn(n),)) for n in range(1, 65))
