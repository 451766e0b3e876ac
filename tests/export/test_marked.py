"""Dims marked as unbacked are claims over every size, none of them special."""

from __future__ import annotations

import torch
from torch.export import Dim

from shapeproof.export import check


def marked(size, **bounds):
    x = torch.randn(size, 3)
    torch._dynamo.decorators.mark_unbacked(x, 0, **bounds)
    return x


class Branching(torch.nn.Module):
    def forward(self, x):
        return x * 2 if x.shape[0] > 4 else x


def test_a_marked_dim_must_work_for_every_size():
    assert check(Branching(), (marked(3),)).status == "refuted"
    assert check(torch.nn.Linear(3, 2), (marked(3),), dynamic_shapes=({0: Dim.AUTO},)).status == "proved"


def test_the_bounds_of_a_marked_dim_are_declared():
    report = check(Branching(), (marked(7, min=5, max=9),))
    assert report.status == "proved"
    assert report.domain == ("x.shape[0] >= 5", "x.shape[0] <= 9")
