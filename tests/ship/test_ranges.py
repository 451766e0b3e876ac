"""The range of each size holds at every accepted point, and both of its ends are taken."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from shapeproof.constraints.errors import UsageError
from shapeproof.export import export
from shapeproof.ship import ranges


class Cut(nn.Module):
    """Takes three columns of each row."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x[:, :3].sum() + y.sum()


def contract(most: int | None):
    n, m = Dim("n", min=1, max=9), Dim("m", min=0, max=most)
    shapes = ({0: n, 1: 2 * n + 1}, {0: m})
    constraints = ("m <= 3*n", "n != 9")
    return export(
        Cut(), (torch.ones(2, 5), torch.ones(4)), dynamic_shapes=shapes, constraints=constraints
    ).report.contract


def test_both_ends_of_a_range_are_taken():
    accepted = contract(40)
    box = [(n, m) for n in range(12) for m in range(60) if accepted.accepts(torch.ones(n, 2 * n + 1), torch.ones(m))]
    columns = [[n for n, _ in box], [2 * n + 1 for n, _ in box], [m for _, m in box]]
    x0, x1, y0 = [(min(each), max(each)) for each in columns]
    assert ranges(accepted) == {"x": [x0, x1], "y": [y0]}


def test_a_size_without_a_greatest_value_has_no_range():
    class Rows(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + 1

    program = export(Rows(), (torch.ones(2, 5),), dynamic_shapes=({0: Dim("n", min=1)},))
    with pytest.raises(UsageError, match="expected a range of n, got none: it has no greatest value"):
        ranges(program.report.contract)
