"""A table that is resized to its own size is the table: proved without data where its numbers are finite."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim

from shapeproof.export import check
from tests.agreement import agree

MODES = [
    ("nearest", None, False),
    ("nearest-exact", None, False),
    *itertools.product(["bilinear", "bicubic"], [False, True], [False, True]),
]
DIMS = {0: Dim("b", min=1, max=4), 2: 2 * Dim("h", min=1, max=4), 3: 2 * Dim("w", min=1, max=4)}


@pytest.mark.parametrize(("mode", "aligned", "antialias"), MODES)
def test_torch_returns_the_elements_of_an_image_of_the_output_size(mode, aligned, antialias):
    """A canary: moved.py relies on it."""
    for dtype, height, width in itertools.product((torch.float32, torch.float64), (1, 2, 7, 14), (1, 3, 14)):
        for layout in (torch.contiguous_format, torch.channels_last):
            image = (torch.randn(2, 5, height, width, dtype=dtype) * 9).to(memory_format=layout)
            result = F.interpolate(image, (height, width), mode=mode, align_corners=aligned, antialias=antialias)
            assert torch.equal(image, result)


class Positions(torch.nn.Module):
    """A vision transformer's addition of positions."""

    def __init__(self, table=None, then=lambda table: table):
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(1, 5, 3) if table is None else table)
        self.then = then

    def positions(self, rows, columns):
        if rows * columns == 4 and rows == columns:
            return self.then(self.table)
        grid = self.table[:, 1:].reshape(1, 2, 2, 3).permute(0, 3, 1, 2).to(torch.float32)
        grid = F.interpolate(grid, (rows, columns), mode="bicubic", align_corners=False)
        return torch.cat((self.table[:, :1], grid.permute(0, 2, 3, 1).view(1, -1, 3)), 1)

    def forward(self, x):
        patches = F.avg_pool2d(x, 2).flatten(2).transpose(1, 2)
        return F.pad(patches, (0, 0, 1, 0)) + self.positions(x.shape[2] // 2, x.shape[3] // 2)


def verdict(model):
    return check(model, (torch.randn(2, 3, 8, 6),), dynamic_shapes=(DIMS,))


def test_positions_of_the_tables_own_size_are_the_table():
    model = Positions()
    report = verdict(model)
    assert report.status == "proved", str(report)
    run = report.program.module()
    for b, h, w in itertools.product((1, 4), (2, 4, 8), (2, 4, 8)):
        assert agree(model, run, (torch.randn(b, 3, h, w),))


class Reordered(Positions):
    """The positions, with the channels put first by other operators than `permute`."""

    def positions(self, rows, columns):
        if rows * columns == 4 and rows == columns:
            return self.table
        grid = self.then(self.table[:, 1:].reshape(1, 2, 2, 3))
        grid = F.interpolate(grid, (rows, columns), mode="bicubic", align_corners=False)
        return torch.cat((self.table[:, :1], grid.permute(0, 2, 3, 1).view(1, -1, 3)), 1)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("then", "status"),
    [
        (lambda grid: grid.movedim(3, 1), "proved"),
        (lambda grid: grid.mT.swapaxes(1, 2), "proved"),
        (lambda grid: grid.movedim(3, 1).mT, "refuted"),
    ],
)
def test_every_operator_that_reorders_dims_moves_elements(then, status):
    """The fault: only `permute` and `transpose` were known to; the kind is known of its family."""
    model = Reordered(then=then)
    report = verdict(model)
    assert report.status == status, str(report)
    for h, w in itertools.product((2, 4, 8), (2, 4, 8)) if status == "proved" else ():
        assert agree(model, report.program.module(), (torch.randn(1, 3, h, w),))


class OfSquares(Positions):
    """Takes the table as it is where the image is square and has as many patches: by pixels, not by rows of patches."""

    def forward(self, x):
        patches = F.avg_pool2d(x, 2).flatten(2).transpose(1, 2)
        if patches.shape[1] == 4 and x.shape[2] == x.shape[3]:
            return F.pad(patches, (0, 0, 1, 0)) + self.table
        grid = self.table[:, 1:].reshape(1, 2, 2, 3).permute(0, 3, 1, 2)
        grid = F.interpolate(grid, (x.shape[2] // 2, x.shape[3] // 2), mode="bicubic").to(torch.float32)
        return F.pad(patches, (0, 0, 1, 0)) + torch.cat((self.table[:, :1], grid.permute(0, 2, 3, 1).view(1, -1, 3)), 1)


def test_a_size_that_only_a_proof_tells_is_known():
    """The fault: undecided, since rewriting by `h == w` and `(h//2)*(w//2) == 4` does not tell that `h//2` is 2."""
    dims = {0: Dim("b", min=1, max=4), 2: Dim("h", min=2, max=9), 3: Dim("w", min=2, max=9)}
    model = OfSquares()
    report = check(model, (torch.randn(2, 3, 8, 6),), dynamic_shapes=(dims,))
    assert report.status == "proved", str(report)
    run = report.program.module()
    for h, w in itertools.product(range(2, 10), repeat=2):
        assert agree(model, run, (torch.randn(2, 3, h, w),))


class Frames(torch.nn.Module):
    """A video model's table of times: resized, it has another layout than the table."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(1, 4, 3))

    def forward(self, x):
        if x.shape[1] == 4:
            return x + self.table
        return x + F.interpolate(self.table.transpose(1, 2), size=x.shape[1], mode="nearest").transpose(1, 2)


def test_a_resized_table_may_have_another_layout_where_it_is_added():
    dims = {0: Dim("b", min=2, max=4), 1: Dim("frames", min=2, max=8)}
    report = check(Frames(), (torch.randn(3, 5, 3),), dynamic_shapes=(dims,))
    assert report.status == "proved", str(report)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "then",
    [
        lambda table: table.flip(1),
        lambda table: torch.cat((table[:, 1:], table[:, :1]), 1),
        lambda table: table[:, :1].expand(1, 5, 3),
        lambda table: table * 2,
    ],
)
def test_other_elements_of_the_table_are_another_program(then):
    assert verdict(Positions(then=then)).status == "refuted"


@pytest.mark.thorough
@pytest.mark.parametrize("number", [float("inf"), float("nan"), -0.0])
def test_a_table_with_numbers_that_interpolation_changes_is_not_proved(number):
    assert verdict(Positions(torch.full((1, 5, 3), number))).status != "proved"


class Returned(Positions):
    """The positions themselves: at the table's size, eager returns the parameter."""

    def forward(self, x):
        return self.positions(x.shape[2] // 2, x.shape[3] // 2)


class Counted(Positions):
    """The table is a buffer that each call changes."""

    def __init__(self):
        super().__init__()
        table = self.table.detach().clone()
        del self.table
        self.register_buffer("table", table)

    def forward(self, x):
        found = super().forward(x)
        self.table.mul_(2)
        return found


@pytest.mark.parametrize("kind", [Returned, Counted])
def test_a_table_that_is_returned_or_mutated_is_not_proved(kind):
    assert verdict(kind()).status != "proved"


class LookedUp(Positions):
    """The table is an embedding, looked up by a buffer at its own size."""

    def __init__(self, places=(0, 1, 2, 3), *, persistent=False):
        super().__init__()
        self.embedding = torch.nn.Embedding(4, 3)
        self.register_buffer("places", torch.tensor([places]), persistent=persistent)

    def positions(self, rows, columns):
        if rows * columns == 4 and rows == columns:
            return self.embedding(self.places)
        grid = self.embedding.weight.unsqueeze(0).reshape(1, 2, 2, 3).permute(0, 3, 1, 2)
        return F.interpolate(grid, (rows, columns), mode="bicubic").permute(0, 2, 3, 1).view(1, -1, 3)

    def forward(self, x):
        found = F.avg_pool2d(x, 2).flatten(2).transpose(1, 2) + self.positions(x.shape[2] // 2, x.shape[3] // 2)
        return found * 2


def test_a_table_that_a_buffer_looks_up_in_order_is_the_table():
    report = verdict(LookedUp())
    assert report.status == "proved", str(report)
    run = report.program.module()
    model = LookedUp()
    model.load_state_dict(report.program.state_dict)
    assert all(agree(model, run, (torch.randn(2, 3, h, w),)) for h, w in itertools.product((2, 4, 8), (2, 4, 8)))


class Moving(LookedUp):
    """Each call changes the buffer."""

    def forward(self, x):
        found = super().forward(x)
        self.places.copy_(self.places.flip(1))
        return found


@pytest.mark.parametrize(
    "model",
    [LookedUp((1, 0, 2, 3)), LookedUp((0, 1, 2, 2)), LookedUp(persistent=True), Moving()],
    ids=["in another order", "not all", "by what a state dict may set", "by what a call changes"],
)
def test_a_table_that_is_looked_up_otherwise_is_not_proved(model):
    assert verdict(model).status != "proved"
