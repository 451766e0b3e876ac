"""Corners are run as long as they multiply little; the smallest sizes are run all the same."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

from shapeproof.export import check
from shapeproof.export.explore import points
from shapeproof.export.graph.work import Work
from shapeproof.export.trace.traced import translator_of
from tests.export.tracing import traced


class Products(torch.nn.Module):
    """A convolution, a linear layer, a product and an attention."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv1d(4, 8, 3, padding=1)
        self.mix = torch.nn.Linear(8, 16)

    def forward(self, x):
        y = self.mix(self.conv(x).transpose(1, 2))
        y = torch.nn.functional.scaled_dot_product_attention(y, y, y)
        return torch.bmm(y, y.transpose(1, 2))


def test_the_multiplications_of_a_program_are_counted():
    shapes = ({0: Dim("b", min=1, max=64), 2: Dim("n", min=1, max=64)},)
    program = traced(Products(), (torch.randn(2, 4, 5),), shapes).program
    b, n = 3, 7
    convolved, mixed = b * 8 * n * (4 * 3), b * n * 16 * 8
    attended, multiplied = b * n * 16 * 2 * n, b * n * n * 16
    work = Work(program.graph, translator_of(program).read)
    assert work.at({"b": b, "n": n}) == convolved + mixed + attended + multiplied


SIZES = []


class Noting(torch.nn.Linear):
    def forward(self, x):
        if not torch.compiler.is_exporting():
            SIZES.append(int(x.shape[0]))
        return super().forward(x)


@pytest.mark.parametrize(("allowed", "largest"), [(2**29, 64), (4 * 4 * 8, 8)])
def test_a_corner_that_multiplies_too_much_is_not_run(monkeypatch, allowed, largest):
    monkeypatch.setattr(points, "CORNER_WORK", allowed)
    SIZES.clear()
    report = check(Noting(4, 4), (torch.randn(5, 4),), dynamic_shapes=({0: Dim("n", min=1, max=64)},))
    assert report.status == "proved"
    assert (min(SIZES), max(SIZES) <= largest, 64 in SIZES) == (1, True, allowed == 2**29)
