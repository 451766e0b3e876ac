"""Bounds of sizes that come out of data: never exceeded, attained, and named where they are missing."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.export import Dim

from shapeproof.export import check, export, load_report

N = Dim("n", min=0, max=6)
OPEN = Dim("n", min=0)


class Model(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def bounds(function, x=None, shapes=({0: N},), **options):
    x = torch.ones(4) if x is None else x
    return export(Model(function), (x,), dynamic_shapes=shapes, **options).report


def limits(report):
    return report.bounds[-1].limits


def test_nonzero_of_five_by_five_has_at_most_twenty_five_rows():
    report = bounds(torch.nonzero, torch.ones(5, 5), (None,))
    (found,) = report.bounds
    assert str(found) == "nonzero: i64[<=25, 2]"
    assert found.limits == (25, 2)
    assert report.peak_bytes_bound == 5 * 5 * 4 + 25 * 2 * 8
    assert "nonzero: i64[<=25, 2]" in str(report)


LEAST = {
    "nonzero": (torch.nonzero, 6),
    "twice": (lambda x: x.repeat_interleave((x > 0).long() * 2), 12),
    "selected": (lambda x: x.masked_select(x > 0), 6),
    "first": (lambda x: x[: (x > 0).sum().item()], 6),
    "half": (lambda x: x[: (x > 0).sum().item() // 2], 3),
    "padded": (lambda x: torch.nn.functional.pad(x[x > 0], (2, 3)), 11),
    "pairs": (lambda x: x[x > 0][:, None].expand(-1, 2).reshape(-1), 12),
    "capped": (lambda x: x.nonzero().squeeze(1)[:4], 4),
    "binned": (lambda x: torch.bincount(x.long().clamp(0, 9)), 10),
    "distinct": (lambda x: torch.unique(x > 0), 2),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", sorted(LEAST))
def test_a_bound_is_attained_and_never_exceeded(name):
    function, least = LEAST[name]
    report = bounds(function)
    sizes = [
        report.program.module()(torch.tensor(values)).shape[0]
        for length in range(7)
        for values in itertools.product((0.0, 9.0), repeat=length)
    ]
    assert max(sizes) <= least
    if name != "distinct":  # the solver knows that there are no more values than elements, and no more
        assert max(sizes) == limits(report)[0] == least


def test_a_masked_scatter_has_the_size_of_its_input():
    report = bounds(lambda x: x.masked_scatter(x > 0, x * 2))
    assert report.status == "proved"
    assert report.bounds == ()


def test_what_would_bound_a_size_is_named():
    report = bounds(torch.nonzero, shapes=({0: OPEN},))
    (found,) = report.bounds
    assert str(found) == "nonzero: i64[?, 1]   unbounded: needs an upper bound of x.shape[0]"
    assert report.peak_bytes_bound is None


def test_a_check_would_bound_a_number_from_data():
    def zeros(x):
        count = x.long()[0].item()
        torch._check(count >= 0)
        return torch.zeros(count)

    report = bounds(zeros, shapes=({0: Dim("n", min=1, max=6)},))
    assert "unbounded: needs a torch._check on u0" in str(report)


def test_only_what_is_needed_is_named():
    class Two(torch.nn.Module):
        def forward(self, x, y):
            return x.nonzero(), y + 1

    shapes = {"x": {0: OPEN}, "y": {0: Dim("m", min=0)}}
    report = export(Two(), (torch.ones(3), torch.ones(4)), dynamic_shapes=shapes).report
    assert report.bounds[0].missing == "unbounded: needs an upper bound of x.shape[0]"


def test_relations_between_dims_are_used():
    class Area(torch.nn.Module):
        def forward(self, x):
            return x.nonzero()

    h, w = Dim("h", min=1, max=64), Dim("w", min=1, max=64)
    report = check(Area(), (torch.ones(3, 4),), dynamic_shapes=({0: h, 1: w},), constraints=("h*w <= 100",))
    assert report.bounds[0].limits == (100, 2)


def test_memory_is_freed_after_the_last_use():
    def chain(x):
        y = x[x > 0]
        for _ in range(5):
            y = y + 1
        return y

    few = bounds(chain).peak_bytes_bound
    # x, its mask, and at most two of the chain at once, of six floats each
    assert few == 6 * 4 + 2 * 6 * 4


def test_bounds_are_saved(tmp_path):
    report = bounds(torch.nonzero)
    report.save(tmp_path / "report.json")
    loaded = load_report(tmp_path / "report.json")
    assert (loaded.bounds, loaded.peak_bytes_bound) == (report.bounds, report.peak_bytes_bound)
