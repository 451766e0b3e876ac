"""The body of a loop stands for every round: what is known of the first round's values is known of no other."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch._higher_order_ops.while_loop import while_loop
from torch.export import Dim

from shapeproof.export import check
from tests.agreement import agree

ROWS = ({0: Dim("rows", min=3, max=9)},)


class Counting(nn.Module):
    """Adds the first three rows; the count starts at a known number."""

    def __init__(self, start: Tensor | None) -> None:
        super().__init__()
        self.start = start

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        def goes_on(count: Tensor, _: Tensor) -> Tensor:
            return count < 3

        def add(count: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
            row = int(count.item())
            torch._check(row >= 0)
            torch._check(row < x.shape[0])
            return count + 1, total + x.select(0, row)

        start = torch.zeros([], dtype=torch.int64) if self.start is None else self.start.clone()
        return while_loop(goes_on, add, (start, torch.zeros(4)))


@pytest.mark.thorough
@pytest.mark.parametrize("start", [None, torch.tensor(0)], ids=["made", "held"])
def test_a_count_in_a_loop_is_not_the_number_that_it_starts_from(start: Tensor | None) -> None:
    report = check(Counting(start), (torch.randn(5, 4),), dynamic_shapes=ROWS)
    assert report.status == "proved"
    constraints = report.program.range_constraints.items()
    assert all(bounds.upper > 2 for name, bounds in constraints if str(name).startswith("u"))
    run = report.program.module()
    assert all(agree(Counting(start), run, (torch.randn(rows, 4),)) for rows in (3, 9))
