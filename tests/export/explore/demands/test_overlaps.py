"""Operators that write into memory of their operand: what eager rejects is refuted, narrowed or said."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.export import Dim

from shapeproof.export import check
from tests.thoroughness import examples

ROWS = range(1, 7)


class Of(torch.nn.Module):
    """A function of rows; it works on a copy of its input."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        rows = x.clone()
        self.function(rows)
        return rows


def last_to_first(rows):
    k = min(rows.shape[0], 2)
    rows[:k] = rows[-k:]


def halves(rows):
    half = rows.shape[0] // 2
    rows[:half].mul_(rows[rows.shape[0] - half :])


def shifted(rows):
    rows[1:].add_(rows[:-1])


def transposed(rows):
    columns = rows.t()
    columns[:, :2].copy_(columns[:, -2:])


def columns_of_one_row(rows):
    rows[:, :2] = rows[:, 1:3]


def into_a_slice(rows):
    torch.add(rows[:1], 1, out=rows[rows.shape[0] // 2 :][:1])


def spread(rows):
    rows[:1].expand(rows.shape[0], 4).add_(1)


def filled(rows):
    rows[:1].expand(rows.shape[0], 4).fill_(1)


def indexed(rows):
    rows.index_put_((torch.tensor([0]),), rows[-1:])


WRITES = [
    last_to_first,
    halves,
    shifted,
    transposed,
    columns_of_one_row,
    into_a_slice,
    spread,
    filled,
    indexed,
]


def raises(model, x):
    try:
        model(x)
    except RuntimeError:
        return True
    return False


@pytest.mark.parametrize("function", WRITES)
def test_a_write_is_refuted_at_the_smallest_size_that_eager_rejects(function):
    model = Of(function)
    rejected = [rows for rows in ROWS if raises(model, torch.randn(rows, 4))]
    served = next((rows for rows in ROWS[1:] if rows not in rejected), 5)
    report = check(model, (torch.randn(served, 4),), dynamic_shapes=({0: Dim("n", min=ROWS[0], max=ROWS[-1])},))
    if not rejected:
        assert report.status == "proved"
        return
    assert report.status == "refuted"
    assert report.diagnostics[0].witness == {"x.shape[0]": rejected[0]}
    assert "single memory" in str(report)


def test_an_inferred_size_leaves_out_the_rows_that_overlap():
    report = check(Of(last_to_first), (torch.randn(5, 4),), dynamic_shapes=({0: Dim.AUTO},))
    assert report.status == "proved"
    assert "x.shape[0] != 3" in report.domain
    assert [rows for rows in range(8) if not report.accepts(torch.randn(rows, 4))] == [3]


def test_what_raises_at_every_size_is_not_proved():
    def always(rows):
        torch.add(rows[:2], 1, out=rows[1:3])

    report = check(Of(always), (torch.randn(5, 4),), dynamic_shapes=({0: Dim("n", min=3, max=9)},))
    assert report.diagnostics[0].message == "the model raises at every declared size"


def test_rows_from_data_that_overlap_are_said():
    class Model(torch.nn.Module):
        def forward(self, x):
            rows, count = x.clone(), int((x[:, 0] > 0).sum())
            torch._check(count <= x.shape[0])
            rows[:count] = rows[x.shape[0] - count :]
            return rows

    report = check(Model(), (torch.randn(5, 4),), dynamic_shapes=({0: Dim("n", min=1, max=8)},))
    assert report.status == "proved"
    assert [failure.operator for failure in report.shared_failures] == ["aten.copy_.default"]
    assert "x.shape[0] < 2*" in report.shared_failures[0].condition


LAID = st.tuples(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=2), st.integers(0, 8))
"""Sizes, strides and an offset."""


@pytest.mark.thorough
@settings(max_examples=examples(60), deadline=None)
@given(written=LAID, other=st.integers(0, 8), turned=st.booleans())
def test_memory_overlaps_where_torch_says_so(written, other, turned):
    """Law: the formula is torch's own check, for each layout of what is written and read."""
    dims, offset = written
    sizes, strides = [size for size, _ in dims], [stride for _, stride in dims]

    def write(rows):
        read = rows.as_strided(sizes, strides[::-1] if turned else strides, other)
        rows.as_strided(sizes, strides, offset).add_(read)

    model = Of(write)
    report = check(model, (torch.randn(8, 4),), dynamic_shapes=({0: Dim("n", min=8, max=16)},))
    assert (report.status == "refuted") == raises(model, torch.randn(8, 4))


def expected(model, sizes):
    """The smallest size that eager rejects, as a witness."""
    rejected = [size for size in sizes if raises(model, torch.randn(size, 64))]
    return {"x.shape[0]": rejected[0]} if rejected else None


def test_the_dim_with_the_smallest_stride_depends_on_sizes():
    def write(rows):
        n = rows.shape[0]
        rows.as_strided((2, 2), (n, 3 - n)).add_(rows.as_strided((2, 2), (2, 1), 1))

    report = check(Of(write), (torch.randn(2, 4),), dynamic_shapes=({0: Dim("n", min=1, max=2)},))
    assert report.diagnostics[0].message == "the model raises at every declared size"
    assert report.diagnostics[0].witness == {"x.shape[0]": 1}


def test_a_stride_that_is_0_at_some_sizes_is_refuted_there():
    def write(rows):
        rows.as_strided((2, 2), (rows.shape[0] - 3, 1)).add_(1)

    report = check(Of(write), (torch.randn(5, 4),), dynamic_shapes=({0: Dim("n", min=3, max=9)},))
    assert report.diagnostics[0].witness == {"x.shape[0]": 3}


def test_memory_that_another_dtype_reads_overlaps():
    def write(rows):
        n = rows.shape[0]
        rows.view(-1)[1:n].add_(rows.view(-1).view(torch.int32)[: n - 1])

    model = Of(write)
    report = check(model, (torch.randn(2, 64),), dynamic_shapes=({0: Dim("n", min=2, max=6)},))
    assert report.diagnostics[0].witness == expected(model, range(2, 7)) == {"x.shape[0]": 3}


STRIDE = st.tuples(st.integers(-1, 1), st.integers(0, 4))
"""A multiple of the size and a constant."""


@pytest.mark.thorough
@settings(max_examples=examples(40), deadline=None)
@given(
    sizes=st.lists(st.integers(1, 3), min_size=2, max_size=3),
    strides=st.lists(STRIDE, min_size=3, max_size=3),
    other=st.integers(0, 8),
)
def test_memory_overlaps_where_torch_says_so_though_strides_depend_on_sizes(sizes, strides, other):
    """Law: the smallest size that eager rejects is found, whichever dim has the smallest stride there."""

    def write(rows):
        mine = [max(times * rows.shape[0] + more, 0) for times, more in strides][: len(sizes)]
        rows.as_strided(sizes, mine).add_(rows.as_strided(sizes, [2, 1, 4][: len(sizes)], other))

    model = Of(write)
    report = check(model, (torch.randn(4, 64),), dynamic_shapes=({0: Dim("n", min=1, max=4)},))
    witnesses = [each.witness for each in report.diagnostics if each.witness]
    assert min(witnesses, key=lambda each: each["x.shape[0]"], default=None) == expected(model, range(1, 5))
