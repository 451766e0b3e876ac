"""Functions of torch that are written in other operators give what eager gives."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.export import Dim

from shapeproof.export import check
from shapeproof.export.ops import decompositions, rewritten
from shapeproof.export.ops.decompositions import (
    diagonal,
    linspace,
    logspace,
    max_pool1d,
    one_hot,
    reference,
    tensor_split,
)
from shapeproof.export.shim.trees import leaves
from tests.agreement import RAISES, agree, outcome
from tests.calling import CallsWithArgs

ends = st.integers(-9, 60) | st.floats(-9, 9, allow_nan=False)
dtypes = st.sampled_from((None, torch.float32, torch.float64))


@given(ends, ends, st.integers(0, 20), dtypes)
def test_steps_are_those_of_eager(start, end, steps, dtype):
    torch.testing.assert_close(linspace(start, end, steps, dtype=dtype), torch.linspace(start, end, steps, dtype=dtype))


@given(ends, ends, st.integers(0, 20), st.sampled_from((torch.float16, torch.bfloat16)))
def test_steps_of_a_small_dtype(start, end, steps, dtype):
    found, wanted = linspace(start, end, steps, dtype=dtype), torch.linspace(start, end, steps, dtype=dtype)
    torch.testing.assert_close(found, wanted, rtol=0.02, atol=0.25)


@given(st.floats(-3, 3), st.floats(-3, 3), st.integers(0, 20), st.sampled_from((10.0, 2.0)), dtypes)
def test_powers_are_those_of_eager(start, end, steps, base, dtype):
    found, wanted = (f(start, end, steps, base, dtype=dtype) for f in (logspace, torch.logspace))
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


@given(st.integers(0, 40), st.integers(1, 9))
def test_parts_are_those_of_eager(size, sections):
    x = torch.arange(2 * size).view(2, size)
    found, wanted = tensor_split(x, sections, -1), torch.tensor_split(x, sections, -1)
    assert [part.tolist() for part in found] == [part.tolist() for part in wanted]
    assert all(a.storage_offset() == b.storage_offset() for a, b in zip(found, wanted, strict=True) if a.numel())


lengths = st.integers(0, 12)
few = st.integers(0, 3)


@given(lengths, few, st.none() | few, few, few, st.booleans(), st.booleans())
def test_what_is_pooled_is_what_eager_pools(length, kernel, stride, padding, dilation, ceil, batched):
    x = torch.randn(2, 3, length) if batched else torch.randn(3, length)
    args = (x, kernel, stride, padding, dilation, ceil)
    found, wanted = outcome(max_pool1d, args), outcome(torch.nn.functional.max_pool1d, args)
    assert (found == RAISES) is (wanted == RAISES)
    if found != RAISES:
        torch.testing.assert_close(found[0], wanted[0], rtol=0, atol=0, equal_nan=True)


@given(st.integers(1, 3), st.booleans(), st.lists(st.integers(0, 5), min_size=6, max_size=6), st.data())
def test_windows_as_large_as_sizes_say_give_what_eager_gives(dims, largest, numbers, data):
    sizes, sides = numbers[:dims], numbers[3 : 3 + dims]
    steps = data.draw(st.none() | st.lists(st.integers(1, 3), min_size=dims, max_size=dims))
    x = torch.randn(2, 3, *(size + 1 for size in sizes))
    reduce, name = (torch.amax, f"max_pool{dims}d") if largest else (torch.mean, f"avg_pool{dims}d")
    wanted = outcome(getattr(torch.nn.functional, name), (x, sides, steps))
    found = outcome(decompositions._pooling(dims, reduce), (x, sides, steps))
    assert (found == RAISES) is (wanted == RAISES)
    if found != RAISES:
        torch.testing.assert_close(found[0], wanted[0])


@given(st.integers(0, 6), st.integers(0, 6), st.integers(-7, 7), st.sampled_from((torch.int64, torch.int32)))
def test_places_below_and_above_a_diagonal_are_those_of_eager(row, col, offset, dtype):
    for name in ("tril_indices", "triu_indices"):
        wanted = getattr(torch, name)(row, col, offset, dtype=dtype)
        found = getattr(decompositions, name)(row, col, offset, dtype=dtype)
        torch.testing.assert_close(found, wanted)
        assert found.is_contiguous()


@given(st.lists(st.integers(-1, 4), max_size=5), st.integers(-1, 6))
def test_classes_are_those_of_eager(values, classes):
    args = torch.tensor(values, dtype=torch.int64), classes
    found, wanted = outcome(one_hot, args), outcome(torch.nn.functional.one_hot, args)
    assert (found == RAISES) is (wanted == RAISES)
    if found != RAISES:
        torch.testing.assert_close(found[0], wanted[0])


shapes = st.lists(few, max_size=3)

BIT_FOR_BIT = {
    "fftfreq": (torch.fft.fftfreq, (st.sampled_from((1.0, 0.1, 3)),)),
    "rfftfreq": (torch.fft.rfftfreq, (st.sampled_from((1.0, 0.1, 3)),)),
    "hann_window": (torch.hann_window, (st.booleans(),)),
    "hamming_window": (torch.hamming_window, (st.booleans(), st.floats(0, 1), st.floats(0, 1))),
}


@pytest.mark.parametrize("name", BIT_FOR_BIT)
@given(st.data(), st.integers(-6, 70), st.sampled_from((None, torch.float32, torch.float64)))
def test_what_is_made_of_a_length_is_eagers_to_the_last_bit(name, data, length, dtype):
    eager, others = BIT_FOR_BIT[name]
    args = (length, *map(data.draw, others))
    found, wanted = (outcome(lambda *a, f=f: f(*a, dtype=dtype), args) for f in (getattr(rewritten, name), eager))
    assert (found == RAISES) is (wanted == RAISES)
    if found != RAISES:
        torch.testing.assert_close(found[0], wanted[0], rtol=0, atol=0, equal_nan=True)


@given(
    st.lists(few, max_size=3), st.lists(few, max_size=3), st.booleans(), st.sampled_from((torch.float32, torch.int8))
)
def test_a_product_of_kronecker_is_that_of_eager(ours, theirs, turned, dtype):
    x, y = torch.randn(ours), torch.arange(torch.Size(theirs).numel(), dtype=dtype).view(theirs)
    args = (x.mT if turned and x.dim() > 1 else x, y)
    found, wanted = outcome(decompositions.kron, args), outcome(torch.kron, args)
    assert (found == RAISES) is (wanted == RAISES)
    if found != RAISES:
        torch.testing.assert_close(found[0], wanted[0], rtol=0, atol=0)
        assert found[0].stride() == wanted[0].stride()


def pools_all(x):
    """As text classifiers and older vision models pool."""
    pool = torch.nn.functional
    rows = pool.max_pool1d(x[..., 0], x.shape[-2]), pool.avg_pool1d(x[..., 0], x.shape[-2])
    return *rows, pool.avg_pool2d(x, x.size()[-2:]), pool.max_pool2d(x, kernel_size=x.size()[-2:])


@pytest.mark.thorough
@pytest.mark.parametrize(
    "function",
    [
        pools_all,
        lambda x: torch.nn.functional.avg_pool2d(x, (x.shape[-2], 1), stride=(1, 2)),
        lambda x: torch.nn.functional.one_hot(torch.arange(x.shape[-1]), x.shape[-1] + 1),
        lambda x: torch.nn.functional.one_hot(x.flatten(1).abs().long()),
        lambda x: torch.tril_indices(x.shape[-1], x.shape[-1]),
        lambda x: torch.triu_indices(x.shape[-2], x.shape[-1], offset=1, dtype=torch.int32),
        lambda x: torch.kron(x, x[:1]),
        lambda x: (torch.fft.fftfreq(x.shape[-1], 0.5), torch.fft.rfftfreq(x.shape[-2])),
        lambda x: (torch.hann_window(x.shape[-1]), torch.hamming_window(x.shape[-2], periodic=False)),
    ],
    ids=["whole", "columns", "classes by size", "classes by data", "below", "above", "kron", "samples", "windows"],
)
def test_what_wants_a_plain_number_takes_a_size(function):
    shapes = (({2: Dim("h", min=1, max=9), 3: Dim("w", min=1, max=9)},),)
    model = CallsWithArgs(function)
    report = check(model, (torch.randn(2, 3, 4, 5),), dynamic_shapes=shapes)
    assert report.status == "proved", str(report)
    run = report.program.module()
    assert all(agree(model, run, (torch.randn(2, 3, h, w),)) for h, w in [(1, 1), (1, 9), (9, 2), (4, 4)])


def test_of_a_tensor_the_function_is_torchs():
    assert reference(torch.linspace, (torch.tensor(0.0), 5, 3), {}) is torch.linspace
    assert reference(torch.logspace, (0, 5, 3), {}) is logspace


def test_what_is_not_written_is_left_to_torch():
    x, pool = torch.randn(2, 9), torch.nn.functional.max_pool1d
    assert reference(torch.tensor_split, (x, 3), {"dim": 1}) is tensor_split
    for args, kwargs in [((x, (1, 2)), {}), ((x, 0), {}), ((x,), {"sections": 3}), ((torch.tensor(1), 3), {})]:
        assert reference(torch.tensor_split, args, kwargs) is torch.tensor_split
    assert reference(pool, (x, 2), {"return_indices": False}) is max_pool1d
    for args, kwargs in [((x, 2), {"return_indices": True}), ((x.long(), 2), {}), ((), {"input": x})]:
        assert reference(pool, args, kwargs) is pool


class Steps(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x, n):
        count = n.item()
        return self.function(0, 1, x.shape[0]), self.function(count, 2 * x.shape[0], count)


@pytest.mark.thorough
@pytest.mark.parametrize("function", [torch.linspace, torch.logspace])
def test_any_number_of_steps_is_one_program(function):
    model = Steps(function)
    shapes = ({0: Dim("n", min=0, max=9)}, None)
    report = check(model, (torch.randn(3), torch.tensor(3)), dynamic_shapes=shapes)
    assert (report.status, report.statistics["traces"]) == ("proved", 1), str(report)
    for run in (report.program.module(), report.program.run_decompositions().module()):
        for count in (-1, 0, 1, 2, 7):
            assert agree(model, run, (torch.randn(abs(count)), torch.tensor(count)))


class Parts(torch.nn.Module):
    def forward(self, x):
        first, second, third = torch.tensor_split(x, 3)
        return first.sum(), second * 2, third, [part.cumsum(1) for part in x.tensor_split(4, dim=1)]


class Pooled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.pool = torch.nn.MaxPool1d(3, 2, padding=1, ceil_mode=True)

    def forward(self, x):
        return torch.nn.functional.max_pool1d(self.pool(x).relu(), 2)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("model", "shapes", "sizes"),
    [
        (Parts(), ({0: Dim("n", min=0, max=12), 1: Dim("m", min=0, max=12)},), [(0, 0), (1, 2), (5, 7), (12, 12)]),
        (Pooled(), ({1: Dim("n", min=2, max=100)},), [(3, 2), (3, 3), (3, 50), (3, 99), (3, 100)]),
    ],
    ids=["tensor_split", "max_pool1d"],
)
def test_any_size_is_one_program(model, shapes, sizes):
    report = check(model, (torch.randn(3, 7),), dynamic_shapes=shapes)
    assert report.status == "proved", str(report)
    for run in (report.program.module(), report.program.run_decompositions().module()):
        assert all(agree(model, run, (torch.randn(*each),)) for each in sizes)


def test_too_little_to_pool_is_refuted():
    report = check(Pooled(), (torch.randn(3, 7),), dynamic_shapes=({1: Dim("n", min=1, max=100)},))
    assert (report.status, report.diagnostics[0].witness) == ("refuted", {"x.shape[1]": 1}), str(report)


SIZES = ((1, 1), (1, 4), (2, 3), (5, 2), (7, 6), (4, 9))
ROWS = torch.nn.functional
EXACT = {
    "parts": lambda x: torch.tensor_split(x, 3, -1),
    "parts of its own": lambda x: x.tensor_split(2, dim=-2),
    "rows": lambda x: ROWS.max_pool1d(x[0], 1, 1),
    "the largest of a row": lambda x: ROWS.max_pool1d(x[0], x.shape[-1]),
    "the largest": lambda x: ROWS.max_pool2d(x, x.shape[-2:]),
    "classes": lambda x: ROWS.one_hot(torch.arange(x.shape[-1]), x.shape[-1] + 1),
    "below": lambda x: torch.tril_indices(x.shape[-2], x.shape[-1]),
    "above": lambda x: torch.triu_indices(x.shape[-2], x.shape[-1], 1),
    "a diagonal": lambda x: (torch.diagonal(x, 0, -1, -2), x.diagonal(1, 1, 2)),
    "numbers": lambda x: (
        torch.as_tensor([x.shape[-1], 2]),
        torch.asarray((x.shape[-1], 0.5)),
        torch.asarray(x.shape[-2]),
    ),
    "numbers of a dtype": lambda x: (
        x.new_tensor([[x.shape[-1]], [1]]),
        torch.as_tensor(x.shape[-1], dtype=torch.int8),
    ),
    "sequences": lambda x: torch.nn.utils.rnn.pad_sequence([x[0, 0], x[0, 0, :1]]),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("name", EXACT)
def test_what_is_written_here_is_eagers_to_the_last_bit(name, dtype):
    model, shapes = CallsWithArgs(EXACT[name]), ({2: Dim("h", min=1, max=9), 3: Dim("w", min=1, max=9)},)
    report = check(model, (torch.randn(2, 3, 4, 5, dtype=dtype),), dynamic_shapes=(shapes,))
    assert report.status == "proved", str(report)
    run = report.program.module()
    for h, w in SIZES:
        x = torch.randn(2, 3, h, w).to(dtype)
        x[0, 0, 0, 0] = float("nan")
        mine, eagers = (leaves(each(x)) for each in (run, model))
        assert all(torch.equal(a.nan_to_num(9), b.nan_to_num(9)) for a, b in zip(mine, eagers, strict=True))


def grid(x):
    return torch.linspace(-1, 1, x.shape[-1])


JUMPING = {
    "a sign": lambda x: grid(x).sign(),
    "a comparison": lambda x: x * (grid(x) > 0),
    "a comparison that is chosen by": lambda x: torch.where(grid(x) >= 0, x, -x),
    "a rounding": lambda x: (grid(x) * 3).floor(),
    "a conversion": lambda x: (grid(x) * 3).long(),
    "a place": lambda x: grid(x).abs().argmin(),
    "what is written into": lambda x: x.new_zeros(x.shape[-1]).copy_(grid(x)).sign(),
    "a view": lambda x: grid(x)[None].expand(2, -1).t().sign(),
    "powers": lambda x: torch.logspace(0, 3, x.shape[-1]).floor(),
    "a pole": lambda x: 1 / grid(x),
    "a power that has one": lambda x: grid(x) ** -1,
    "a root": lambda x: (grid(x) ** 0.5, grid(x).sqrt()),
    "other numbers from the same bits": lambda x: grid(x).view(torch.int32),
    "a count": lambda x: torch.linalg.vector_norm(grid(x), ord=0),
    "a sum of whole numbers": lambda x: (grid(x) * 100).cumsum(0, dtype=torch.int64),
    "a product with infinity": lambda x: grid(x) * float("inf"),
    "a large product": lambda x: (grid(x) * 1e30).sigmoid(),
    "a normalization of nothing": lambda x: ROWS.rms_norm(grid(x) + grid(x).flip(0), (x.shape[-1],), eps=0.0),
    "a mean": lambda x: ROWS.avg_pool1d(x[0], x.shape[-1]).round(),
    "a nearest place": lambda x: ROWS.grid_sample(
        x, torch.stack([grid(x)] * 2, -1).expand(2, 1, -1, 2), mode="nearest"
    ),
}


@pytest.mark.parametrize("name", JUMPING)
def test_where_a_rounding_may_show_torchs_function_is_kept(name):
    model, shapes = CallsWithArgs(JUMPING[name]), {3: Dim("w", min=1, max=9)}
    report = check(model, (torch.randn(2, 3, 4, 5),), dynamic_shapes=((shapes,),))
    assert report.status == "proved", str(report)
    assert "its rounding may show" in " ".join(report.notes)
    run = report.program.module()
    for w in range(1, 10):
        x = torch.randn(2, 3, 4, w)
        mine, eagers = (leaves(each(x)) for each in (run, model))
        assert all(torch.equal(a.nan_to_num(7), b.nan_to_num(7)) for a, b in zip(mine, eagers, strict=True))


SMOOTH = {
    "a grid": lambda x: x + grid(x).sin().softmax(-1),
    "a bias": lambda x: (x @ grid(x)[:, None]).relu().mean(),
    "a sampling": lambda x: ROWS.grid_sample(x, torch.stack([grid(x)] * 2, -1).expand(2, 1, -1, 2)),
    "a mean": lambda x: (x - ROWS.avg_pool2d(x, x.shape[-2:]).abs() + 1) / 3,
    "powers": lambda x: x * 10 ** grid(x) + grid(x) ** 2,
    "a normalization": lambda x: ROWS.layer_norm((x * grid(x)).mean(-1), (4,)),
    "its size": lambda x: torch.zeros_like(grid(x)).sign(),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_a_rounding_that_does_not_show_is_proved(name):
    model, shapes = CallsWithArgs(SMOOTH[name]), {3: Dim("w", min=1, max=9)}
    report = check(model, (torch.randn(2, 3, 4, 5),), dynamic_shapes=((shapes,),))
    assert report.status == "proved", str(report)
    assert not report.notes
    report.program.run_decompositions()


@pytest.mark.parametrize("offset", [-4, -1, 0, 1, 2, 5])
def test_a_diagonal_is_what_eager_gives(offset):
    for rows, columns in itertools.product(range(5), range(5)):
        x = torch.randn(2, rows, columns, 3)
        for dims in ((1, 2), (-2, 1), (2, 3)):
            mine, eager = diagonal(x, offset, *dims), torch.diagonal(x, offset, *dims)
            assert torch.equal(mine, eager)
            assert eager.numel() == 0 or (mine.data_ptr(), mine.stride()) == (eager.data_ptr(), eager.stride())


class Diagonal(torch.nn.Module):
    def forward(self, x):
        y = x.clone()
        y.diagonal(1).add_(1)
        return torch.diagonal(x, -1) * 2, y


@pytest.mark.thorough
def test_a_diagonal_of_any_sizes_is_one_program():
    shapes = ({0: Dim("n", min=0, max=5), 1: Dim("m", min=0, max=5)},)
    report = check(Diagonal(), (torch.randn(3, 4),), dynamic_shapes=shapes)
    assert report.status == "proved", str(report)
    found = report.program.graph.find_nodes(op="call_function", target=torch.ops.aten.diagonal.default)
    assert [node.args[0].target for node in found] == [torch.ops.aten.slice.Tensor] * 2
    for run in (report.program.module(), report.program.run_decompositions().module()):
        assert all(agree(Diagonal(), run, (torch.randn(n, m),)) for n in range(6) for m in range(6))
