"""Sizes at which eager and the program both raise, whatever the data, are refuted (export/corners.py)."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim

from shapeproof.export import check

RAISING = {
    "max": lambda x: x.max(1).values,
    "interpolate": lambda x: F.interpolate(x[None], size=max(1, x.shape[1] // 2)),
    "median": lambda x: x.median(1).values,
    "unpack": lambda x: x.unbind(0)[0].amax(),
}
SERVING = {
    "sum": lambda x: x.sum(1),
    "softmax": lambda x: x.softmax(1),
    "interpolate a batch of none": lambda x: F.interpolate(x.t()[:, None], size=5),
}


def model(forward: Any) -> torch.nn.Module:
    """A module with this forward."""
    return type("Model", (torch.nn.Module,), {"forward": staticmethod(forward)})()


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64], ids=str)
@pytest.mark.parametrize("name", RAISING)
def test_none_of_a_size_that_is_declared_is_refuted_where_eager_takes_none(name: str, dtype: torch.dtype) -> None:
    if name == "interpolate" and dtype is torch.int64:
        pytest.skip("torch interpolates floats")
    x = torch.arange(15).reshape(3, 5).to(dtype)
    report = check(model(RAISING[name]), (x,), dynamic_shapes=({1: Dim("n", min=0, max=8)},))
    assert (report.status, report.diagnostics[0].witness) == ("refuted", {"x.shape[1]": 0}), str(report)
    assert check(model(RAISING[name]), (x,), dynamic_shapes=({1: Dim("n", min=1, max=8)},)).status == "proved"


@pytest.mark.parametrize("name", SERVING)
def test_none_is_a_size_like_any_other_where_eager_takes_it(name: str) -> None:
    report = check(model(SERVING[name]), (torch.randn(3, 5),), dynamic_shapes=({1: Dim("n", min=0, max=8)},))
    assert report.status == "proved", str(report)


def test_bounds_that_are_left_out_claim_nothing_about_none() -> None:
    report = check(model(RAISING["max"]), (torch.randn(3, 5),), dynamic_shapes=({1: Dim("n")},))
    assert report.status == "proved", str(report)
    with pytest.raises(RuntimeError, match=r"outside the declared domain: x.shape\[1\] >= 1"):
        report.program.module()(torch.randn(3, 0))


def test_where_data_can_help_nothing_is_refuted() -> None:
    """Eager raises for the table of one row if an index is 1, and takes it if all are 0."""
    table = model(lambda table, index: table[index])
    shapes = ({0: Dim("n", min=1, max=8)}, None)
    report = check(table, (torch.randn(4, 2), torch.tensor([1, 0])), dynamic_shapes=shapes)
    assert report.status == "proved", str(report)


def test_what_torch_cannot_take_apart_is_run_whole() -> None:
    """The fault: an INTERNAL ASSERT of torch, which cannot make `resize_` functional, was the answer."""
    mod = model(lambda x: x.clone().resize_(x.shape[0], 2))
    report = check(mod, (torch.randn(4, 3),), dynamic_shapes=({0: Dim("n", min=1, max=8)},))
    assert report.status == "proved", str(report)
