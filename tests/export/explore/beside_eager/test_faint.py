"""Results so small that any two are equal within the tolerance: what differs is told by its size."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

from shapeproof.export import check


class Scaled(torch.nn.Module):
    """Adds a row where the number of rows is odd, and makes the sum small."""

    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x):
        if x.shape[0] % 2:
            x = torch.cat([x, x.new_ones(1, 4)])
        return x.sum(0) * self.scale


@pytest.mark.parametrize("scale", [1.0, 1e-30])
def test_another_path_is_another_program_whatever_the_size_of_results(scale):
    report = check(Scaled(scale), (torch.randn(4, 4),), dynamic_shapes=({0: Dim("n", min=1, max=64)},))
    assert report.status == "refuted"
    assert report.diagnostics[0].id == "other-program"
    assert report.diagnostics[0].witness == {"x.shape[0]": 1}


class Remainder(torch.nn.Module):
    """Gives what the rounding of a sum leaves over, or nothing: both are zero to the last bit but one."""

    def forward(self, x):
        if x.shape[0] == 1:
            return x * 0.0
        return (x + 1.0) - x - 1.0


def test_the_roundings_of_large_numbers_are_no_difference():
    report = check(Remainder(), (torch.randn(3, 4),), dynamic_shapes=({0: Dim("n", min=1, max=64)},))
    assert all("tiny" not in str(each) for each in report.diagnostics)
