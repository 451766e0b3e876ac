"""Sizes at which eager and the program both raise, whatever the data, are refuted (explore/beside_eager/corners.py)."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim

from shapeproof.export import check
from shapeproof.export.explore.points import at_upper_ends
from tests.agreement import agree

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


@pytest.mark.parametrize("dim", [Dim("n"), Dim.AUTO, Dim.DYNAMIC], ids=["a name", "auto", "dynamic"])
@pytest.mark.parametrize("name", RAISING)
def test_a_bound_that_is_left_out_rises_where_eager_takes_none(name: str, dim: Any) -> None:
    """The fault: proved for 0, too, though both raise there."""
    report = check(model(RAISING[name]), (torch.randn(3, 5),), dynamic_shapes=({1: dim},))
    assert (report.status, report.domain) == ("proved", ("x.shape[1] >= 1",)), str(report)
    assert report.notes[0].startswith("inferred and enforced at run time: x.shape[1] >= 1")
    with pytest.raises(RuntimeError, match=r"x.shape\[1\] = 0, but x.shape\[1\] >= 1 is required"):
        report.program.module()(torch.randn(3, 0))


@pytest.mark.parametrize("dim", [Dim("n"), Dim.AUTO, Dim.DYNAMIC], ids=["a name", "auto", "dynamic"])
def test_a_bound_that_is_left_out_stays_where_eager_takes_none_of_them(dim: Any) -> None:
    report = check(model(SERVING["softmax"]), (torch.randn(3, 5),), dynamic_shapes=({1: dim},))
    assert (report.status, report.notes) == ("proved", ()), str(report)


@pytest.mark.parametrize("dim", [Dim("m"), Dim.AUTO], ids=["a name", "auto"])
def test_a_claim_is_refuted_beside_what_is_inferred(dim: Any) -> None:
    """The fault: one bound that was left out let eager refuse any size that was claimed."""
    mod = model(lambda x, y: (RAISING["interpolate"](x), RAISING["interpolate"](y)))
    shapes = ({1: Dim("n", min=0, max=8)}, {1: dim})
    report = check(mod, (torch.randn(3, 5), torch.randn(3, 4)), dynamic_shapes=shapes)
    assert report.status == "refuted", str(report)
    assert report.diagnostics[0].witness["x.shape[1]"] == 0
    assert report.diagnostics[0].witness["y.shape[1]"] > 0


def test_other_inputs_have_data_where_one_has_none() -> None:
    """The fault: an IndexError of torch was taken for one of the data."""
    mod = model(lambda x, y: x.max(1).values + y)
    for dim, status in [(Dim("n", min=0, max=8), "refuted"), (Dim("n"), "proved")]:
        report = check(mod, (torch.randn(3, 5), torch.randn(3)), dynamic_shapes=({1: dim}, None))
        assert report.status == status, str(report)
        assert (report.status == "refuted") or report.domain == ("x.shape[1] >= 1",)


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


@pytest.mark.thorough
def test_a_region_takes_what_is_inferred_of_its_sizes() -> None:
    """The fault: a region was said to serve none of a size, which eager and its program refuse."""
    mod = model(lambda x: x.max(1).values if x.shape[1] < 4 else x.sum(1))
    report = check(mod, (torch.randn(3, 5),), dynamic_shapes=({1: Dim("n")},), branches="split")
    assert (report.status, report.domain) == ("proved", ("x.shape[1] >= 1",)), str(report)
    assert len(report.program.programs) == 2
    for n in range(1, 7):
        assert agree(mod, report.program.module(), (torch.randn(3, n),))
    claimed = check(mod, (torch.randn(3, 5),), dynamic_shapes=({1: Dim("n", min=0, max=8)},), branches="split")
    assert (claimed.status, claimed.diagnostics[0].witness) == ("refuted", {"x.shape[1]": 0}), str(claimed)


def test_any_two_sizes_are_at_each_pair_of_their_ends_in_few_corners():
    """The fault: of a hundred sizes, all but the last four were at their lower ends in all of sixteen corners."""
    for count in range(1, 41):
        corners = [set(high) for high in at_upper_ends([str(index) for index in range(count)])]
        for one, other in itertools.combinations(map(str, range(count)), 2):
            assert len({(one in high, other in high) for high in corners}) == 4
        assert len(corners) <= max(16 if count <= 4 else 0, 3 + count.bit_length())


@pytest.mark.thorough
def test_a_difference_where_two_of_six_sizes_are_large_is_found():
    """The fault: the first two of six sizes were never at their upper ends together."""
    large = model(lambda a, b, *_: a * (2 if type(a.shape[0]) is int and a.shape[0] + b.shape[0] > 15 else 1))
    dims = tuple({0: Dim(name, min=2, max=8)} for name in "abcdeg")
    shapes = {"a": dims[0], "b": dims[1], "_": dims[2:]}
    assert check(large, tuple(torch.ones(3) for _ in dims), dynamic_shapes=shapes).status == "refuted"
