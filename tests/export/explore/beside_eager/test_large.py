"""Sizes too large to be made are not run: what is decided there is decided without, and the process lives."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

from shapeproof.export import check

HUGE = 2**45
"""No machine has as many elements."""


class CountsFar(torch.nn.Module):
    """As operators choose between indices of 32 and of 64 bits."""

    def forward(self, x):
        return x + 1 if x.numel() >= HUGE else x + 2


class Refuses(torch.nn.Module):
    def forward(self, x):
        if x.numel() >= HUGE:
            raise ValueError("too many")
        return x


@pytest.mark.parametrize("model", [CountsFar, Refuses])
def test_a_branch_on_sizes_that_no_machine_holds_is_no_crash(model):
    report = check(model(), (torch.randn(7, 3),), dynamic_shapes=({0: Dim("n", min=1)},))
    assert report.status == "undecided", str(report)
    (found,) = report.diagnostics
    assert found.line is not None
    assert str(HUGE // 3) in str(report)


def test_below_such_a_size_the_model_is_proved():
    report = check(CountsFar(), (torch.randn(7, 3),), dynamic_shapes=({0: Dim("n", min=1, max=HUGE // 3)},))
    assert report.status == "proved", str(report)


class Wide(torch.nn.Module):
    """Two million multiplications a row, then so many operators."""

    def __init__(self, more):
        super().__init__()
        self.layer, self.more = torch.nn.Linear(2048, 1024), more

    def forward(self, x):
        y = self.layer(x)
        for _ in range(self.more):
            y = y.relu()
        return y


@pytest.mark.parametrize(("more", "followed"), [(0, True), (24, False)])
def test_values_are_compared_where_the_operators_cost_more_to_follow(more, followed):
    """The fault: at a corner that took 40 ms to run, the dataflow of PSPNet took 270."""
    report = check(Wide(more), (torch.randn(8, 2048),), dynamic_shapes=({0: Dim("n", min=1, max=8)},))
    assert report.status == "proved"
    assert ("by dataflow" in str(report)) is followed
