"""A check that torch's guess leaves in the program is offered as the model's own, where that settles all about data."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

from shapeproof.export import check
from tests.agreement import agree

ROWS, COLUMNS = Dim("rows", min=1, max=3), Dim("columns", min=1, max=5)
PADDED = {"x": {0: ROWS, 1: COLUMNS}, "lengths": {0: ROWS}}
EXAMPLE = torch.randn(2, 4), torch.tensor([4, 3])


class Masked(torch.nn.Module):
    """Blanks what lies behind each row's length; `cut` is the check that the report suggests."""

    def __init__(self, *, cut: bool = False) -> None:
        super().__init__()
        self.cut = cut

    def forward(self, x, lengths):
        longest = int(lengths.max())
        if self.cut:
            torch._check(longest <= x.shape[1])
        behind = torch.arange(longest)[None] >= lengths[:, None]
        return torch.where(behind, 0.0, x[:, :longest])


@pytest.mark.thorough
def test_a_mask_as_long_as_the_longest_row_needs_one_check_that_the_example_passes():
    """Eager broadcasts a single column to any length, so the two sizes need not be equal there."""
    (found,) = check(Masked(), EXAMPLE, dynamic_shapes=PADDED).diagnostics
    assert (found.id, found.message.split(": ")[-1]) == ("data-dependent", "`longest <= x.shape[1]`")
    (help_,) = found.help
    assert help_.text == "torch._check(longest <= x.shape[1])"


def test_the_model_that_makes_this_check_is_proved_and_agrees_with_eager():
    report = check(Masked(cut=True), EXAMPLE, dynamic_shapes=PADDED)
    assert report.status == "proved", str(report)
    program = report.program.module()
    for columns in (1, 2, 5):
        for lengths in ([columns, 1], [1, 1], [columns + 1, 1], [0, 0], [-1, -1]):
            assert agree(Masked(cut=True), program, (torch.randn(2, columns), torch.tensor(lengths)))


class Positions(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.arange(8.0))

    def forward(self, x):
        return x + self.table[: x.shape[0]]


def test_a_slice_that_has_to_be_whole_is_said_as_a_bound():
    """The slice has `min(n, 8)` elements; `n == min(n, 8)` is said as `n <= 8`."""
    (found,) = check(Positions(), (torch.ones(3),), dynamic_shapes=({0: Dim("n", min=2, max=12)},)).diagnostics
    assert (found.id, found.message) == ("bound", "`x.shape[0] <= 8` must hold")


def test_contradictory_checks_are_refuted_at_the_line_that_makes_them_so():
    class Model(torch.nn.Module):
        def forward(self, x, n):
            count = n.item()
            torch._check(count > x.shape[0])
            torch._check(count < 1)
            return x * count

    shapes = ({0: Dim("m", min=1, max=16)}, None)
    report = check(Model(), (torch.ones(5), torch.tensor(2)), dynamic_shapes=shapes)
    (found,) = report.diagnostics
    assert (report.status, report.program, found.id) == ("refuted", None, "contradiction")
    assert found.message == "no data pass this check: `count <= 0`"
    assert "torch._check(count < 1)" in str(report)
    assert "x.shape[0] < count" in str(report)
