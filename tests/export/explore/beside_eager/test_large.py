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
