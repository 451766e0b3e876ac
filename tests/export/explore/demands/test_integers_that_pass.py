"""Integers that are made up pass what the model demands of them: in range, in order, up to a sum, one of a value."""

from __future__ import annotations

import itertools

import pytest
import torch

from shapeproof.constraints.terms import symbol
from shapeproof.export.explore.demands.data_demands import _can_hold, _divide, _Number, _share, _Within

DTYPES = (torch.int64, torch.int8, torch.uint8, torch.bool, torch.float32)


def drawn(count, dtype, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-9, 9, (count,), generator=generator).to(dtype)


SIZE, SHIFT = symbol("n"), symbol("k")


@pytest.mark.quick
@pytest.mark.parametrize("ordered", [False, True])
def test_an_index_is_moved_into_its_range_and_only_where_it_lies_outside(ordered):
    """To the nearest end where the order counts, else by what is left of a division."""
    demand = _Within("index", SIZE, SHIFT, ordered)
    for size, shift, seed in itertools.product((1, 3, 7), (0, -1, 2), range(3)):
        given, values = drawn(5, torch.int64, seed) + shift, {"index": drawn(5, torch.int64, seed)}
        demand({"n": size, "k": shift}, values)
        assert torch.equal(values["index"] + shift, given.clamp(0, size - 1) if ordered else given % size)
    values = {"index": drawn(5, torch.int64)}
    for point in ({"n": 0, "k": 0}, {"n": 3}, {"k": 0}):  # no integer is an index of none, or of an unknown size
        demand(point, values)
        assert torch.equal(values["index"], drawn(5, torch.int64))


def test_offsets_begin_with_0_and_rise_up_to_the_size():
    for size, count in itertools.product((0, 4), (0, 1, 5)):
        values = {"offsets": drawn(count, torch.int64)}
        _divide("offsets", SIZE, {"n": size}, values)
        rising = sorted(min(max(each, 0), size) for each in drawn(count, torch.int64).tolist())
        assert values["offsets"].tolist() == [0, *rising[1:]][:count]
    values = {"offsets": torch.tensor([3, 9, 1, 2])}
    _divide("offsets", SIZE, {"n": 4}, values)
    assert values["offsets"].tolist() == [0, 2, 3, 4]
    values = {"offsets": torch.tensor(3)}
    for point in ({"n": 2}, {"n": -1}, {}):
        _divide("offsets", SIZE, point, values)
        assert values["offsets"] == 3


def test_lengths_add_up_to_the_size_where_their_dtype_holds_them():
    totals = (-1, 0, 2, 7, 127 * 3, 126 * 3 + 1, 700, 2**24 + 1)
    for dtype, total, count in itertools.product(DTYPES, totals, (0, 1, 3)):
        before, values = drawn(count, dtype), {"lengths": drawn(count, dtype)}
        _share("lengths", SIZE, {"n": total}, values)
        held = {_can_hold(dtype, total // max(count, 1) + more) for more in (0, bool(total % max(count, 1)))}
        if total < 0 or not count or held != {True}:
            assert torch.equal(values["lengths"], before)
        else:
            assert values["lengths"].sum() == total
            assert int(values["lengths"].min()) >= 0
    values = {"lengths": torch.tensor([[1, 2], [4, 1]])}
    _share("lengths", SIZE, {"n": 3}, values)
    assert values["lengths"].sum(-1).tolist() == [3, 3]
    values = {"lengths": torch.tensor([[1, 2], [3, 0]])}
    _share("lengths", SIZE, {"n": 3}, values)
    assert values["lengths"].tolist() == [[1, 2], [3, 0]]
    alone = {"lengths": torch.tensor(3)}
    for point in ({"n": 5}, {}):
        _share("lengths", SIZE, point, alone)
        assert alone["lengths"] == 3


def test_a_dtype_holds_the_integers_that_come_back():
    for dtype, value in itertools.product(DTYPES, (-1, 0, 1, 2, 127, 128, 255, 256, 2**24, 2**24 + 1)):
        back = torch.tensor(value).to(dtype).to(torch.int64)
        assert _can_hold(dtype, value) is (int(back) == value)
    with torch.device("meta"):  # whatever the user's default device is
        assert _can_hold(torch.float32, 5)


def test_a_number_that_is_put_is_read():
    for how, dtype, value in itertools.product(("element", "max", "min", "sum"), DTYPES, (-3, 0, 1, 6, 300)):
        tensor = drawn(4, dtype)
        number, before = _Number("x", how, -1), tensor.clone()
        if dtype is torch.bool and how != "element":
            continue
        number.put(tensor, value)
        assert number.of(tensor) == value or torch.equal(tensor, before)
        assert number.of(tensor) == value or not _can_hold(dtype, value) or (how == "sum" and value % 4)
    one = drawn(1, torch.int64)
    _Number("x", "max").put(one, 5)
    assert one.tolist() == [5]
    assert _Number("x", "element", -4).of(torch.arange(4)) == 0
    assert _Number("x", "element", 4).of(drawn(4, torch.int64)) is None
    assert _Number("x", "max").of(drawn(0, torch.int64)) is None
