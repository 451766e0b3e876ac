"""Sizes that come out of data: what is known of them is used, and what is written or aliased is forgotten."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

from shapeproof.export import check
from tests.agreement import agree
from tests.calling import Calls

N = Dim("n", min=0, max=16)
M = Dim("m", min=1, max=16)
X = torch.tensor([0.5, -1.0, 2.0, 0.0, 3.0])
INDEX = torch.tensor([1, 0, 3, 2, 1])


def counted(x, i):
    kept = (i > 1).sum().item()
    return x[:kept] * 2 if kept <= x.shape[0] else x


def greatest(x, i):
    at = i.argmax().item()
    return x[:at].sum() + x[at:].sum()


def clamped(x, i):
    return x.narrow(0, 0, i[0].clamp(0, x.shape[0]).item())


def smaller(x, i):
    kept = torch.minimum(i[0].clamp(min=0), torch.tensor(x.shape[0])).item()
    return x[:kept]


def longest(x, i):
    length = i.clamp(0, x.shape[0]).max().item()
    return x[:length] if length <= x.shape[0] else x


def remainder(x, i):
    return x[: (i[0] % x.shape[0]).item()]


def chunked(x, i):
    """Windows of a length computed by torch.div, as Longformer's."""
    kept = torch.div(x.shape[0], 2, rounding_mode="trunc") * 2
    return x[:kept].view(torch.div(kept, 2, rounding_mode="trunc"), 2) + i[0]


def half(x, i):
    kept = (torch.tensor(x.shape[0]) // 2).item()
    return x[:kept] + i[:kept]


def repeated(x, i):
    found = x.repeat_interleave(i.clamp(0, 3))
    return found * 2 if found.shape[0] > 3 * x.shape[0] else found


def binned(x, i):
    found = torch.bincount(i.clamp(0, 7), minlength=3)
    return x * 2 if found.shape[0] > 8 or found.shape[0] < 3 else found


def first_of(x, i):
    found = torch.topk(x, torch.sym_min(i[0].clamp(0).item(), x.shape[0]))
    return found.values


def distinct(x, i):
    found, inverse = torch.unique(i, return_inverse=True)
    return found[inverse] if found.shape[0] <= x.shape[0] else x


def through_views(x, i):
    positions = i.argsort().reshape(-1).view(-1, 1)
    first = positions.squeeze(1).to(torch.int32).max().item()
    return x[:first] if first < x.shape[0] else x


def between(x, i):
    found = x[i[0].item() : i[-1].item()]
    return found * 2 if found.shape[0] <= x.shape[0] else x


def without_the_last(x, i):
    return x[: -i[0].item()], x[i[0].item() :: 2]


def one_of(x, i):
    return x[i[0].item()]


def kept_by_a_mask(x, i):
    return x[i > 1], x.masked_select(i > 2)


def written_by_a_mask(x, i):
    x = x.clone()
    x[i > 1] = 0.5
    x[x < 0] = x[x < 0] * 2
    return x


def columns_written_by_a_mask(x, i):
    found = x.new_zeros(2, x.shape[0], 3)
    found[:, i > 1] = x[i > 1][:, None] * torch.ones(3)
    return found


def added_in_place(x, i):
    """The mask is used twice: what torch makes of an operator in place counts its rows anew."""
    kept = i >= 0
    found = torch.zeros(21)
    found.index_put_((i[kept],), x[kept], accumulate=True)
    return found


def chosen_by_a_condition(x, i):
    wanted = i[0].item()
    end = torch.sym_max(torch.sym_ite(wanted > x.shape[0], x.shape[0], wanted), 0)
    return x[:end] if end <= x.shape[0] else x


def in_halves(x, i):
    """A float step: the size is `ceil(n / 0.5)`, of an n that nothing bounds from above."""
    return x.sum() + torch.arange(0, i.sum().clamp(min=0).item(), 0.5)


def bounded_by_a_bool(x, i):
    """Python takes True for 1."""
    return x[: (i[0] > 0).item()], x[(i > 3).any().item() :], x[: int((i[-1] > 0).item())]


PROVED = [
    counted,
    greatest,
    clamped,
    smaller,
    longest,
    remainder,
    half,
    chunked,
    repeated,
    binned,
    first_of,
    distinct,
    through_views,
    between,
    without_the_last,
    one_of,
    kept_by_a_mask,
    written_by_a_mask,
    columns_written_by_a_mask,
    added_in_place,
    chosen_by_a_condition,
    in_halves,
    bounded_by_a_bool,
]


@pytest.mark.parametrize("function", PROVED, ids=lambda function: function.__name__)
def test_what_is_known_of_data_settles_what_is_asked(function):
    model = Calls(function)
    report = check(model, (X, INDEX), dynamic_shapes={"x": {0: M}, "i": {0: M}})
    assert report.status == "proved", str(report)
    run = report.program.module()
    for size in (1, 2, 5, 16):
        for low, high in ((0, 1), (-9, 9), (0, 20)):
            assert agree(model, run, (torch.randn(size), torch.randint(low, high, (size,))))


def experts(x, i):
    found = torch.zeros_like(x)
    for index in range(3):
        mine = (i == index).nonzero().squeeze(-1)
        found = found.index_add(0, mine, x[mine] * index)
    return found


def test_what_operators_ask_of_their_own_sizes_from_data_is_settled_in_place():
    """None and one are no other programs: nothing is traced for them."""
    report = check(Calls(experts), (X, INDEX), dynamic_shapes={"x": {0: M}, "i": {0: M}})
    assert (report.status, report.statistics["traces"]) == ("proved", 1), str(report)
    for size in (1, 5):
        assert agree(Calls(experts), report.program.module(), (torch.randn(size), torch.randint(0, 5, (size,))))


def sliced_and_checked(x, i):
    start = i.clone().mul_(1)[0].item()
    x = x[start:] + x[start:].sum()
    torch._check(start < 2)
    return x


def test_a_graph_meets_the_same_symbols_when_torch_runs_it_again():
    """More is known at its end than where it was traced."""
    model = Calls(sliced_and_checked)
    report = check(model, (X, INDEX), dynamic_shapes={"x": {0: M}, "i": {0: M}})
    assert report.status == "proved", str(report)
    for run in (report.program.module(), report.program.run_decompositions().module()):
        for start in (-20, -3, 0, 1, 2):
            assert agree(model, run, (torch.randn(5), torch.full((5,), start)))


def written(x, i):
    at = i.argmax()
    at.add_(i[0])
    kept = at.item()
    return x * 2 if kept >= x.shape[0] else x


def written_through_a_view(x, i):
    at = i.argsort()
    at[:1] = 100
    kept = at.max().item()
    return x * 2 if kept >= x.shape[0] else x


def written_as_an_output(x, i):
    at = i.argmax()
    torch.mul(i[0], 7, out=at)
    kept = at.item()
    return x * 2 if kept >= x.shape[0] else x


def seen_as_another_dtype(x, i):
    at = i.argsort().view(torch.int32)
    kept = at.view(torch.int16).max().item()
    return x * 2 if kept >= x.shape[0] else x


def wrapped_around(x, i):
    at = i.clamp(0, 100).to(torch.int8) + 100
    kept = at.max().item()
    return x * 2 if kept < 100 else x


@pytest.mark.parametrize(
    "function",
    [written, written_through_a_view, written_as_an_output, seen_as_another_dtype, wrapped_around],
    ids=lambda function: function.__name__,
)
def test_what_is_written_aliased_or_wrapped_is_not_known(function):
    report = check(Calls(function), (X, INDEX), dynamic_shapes={"x": {0: M}, "i": {0: M}})
    assert report.status == "refuted", str(report)
