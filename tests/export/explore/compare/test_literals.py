"""An integer in a tensor: a size in one program and, where the size has one value, a constant in the other."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

from shapeproof.export import check


class Levels(torch.nn.Module):
    """Notes the sizes of a map and flattens its grid, as detectors do: a grid of one row is a view."""

    def __init__(self, of_one=lambda size: size):
        super().__init__()
        self.one, self.other = (torch.nn.Conv2d(3, 2, 3, stride=2, padding=1) for _ in range(2))
        self.of_one = of_one

    def forward(self, x):
        y = self.one(x) + self.other(x)
        height, width = y.shape[-2:]
        sizes = torch.empty(2, dtype=torch.long)
        sizes[0] = self.of_one(height)
        sizes[1] = width
        rows, _ = torch.meshgrid(torch.arange(width), torch.arange(height), indexing="xy")
        return y.flatten(2), sizes, rows.flatten().outer(torch.ones(3, dtype=torch.long))


def checked(model):
    dims = {2: 2 * Dim("rows", min=1, max=9), 3: 2 * Dim("columns", min=1, max=9)}
    with torch.no_grad():
        return check(model, (torch.randn(4, 3, 8, 6),), dynamic_shapes=(dims,))


@pytest.mark.thorough
def test_a_size_that_is_a_constant_in_one_region_leaves_one_program():
    model = Levels()
    report = checked(model)
    assert report.status == "proved", str(report)
    for height in (2, 4, 18):
        for width in (2, 18):
            x = torch.randn(4, 3, height, width)
            with torch.no_grad():
                for mine, other in zip(report.program.module()(x), model(x), strict=True):
                    torch.testing.assert_close(mine, other)


def test_another_constant_in_one_region_is_another_program():
    report = checked(Levels(lambda size: 7 if size == 1 else size))
    assert report.status == "refuted"
    assert "rows = 1" in str(report)
