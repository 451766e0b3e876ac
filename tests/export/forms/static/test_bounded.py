"""Bounded programs: each size from data at its bound; right at every count, or refused with the node."""

from __future__ import annotations

import random

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

from shapeproof.constraints.errors import UsageError
from shapeproof.export import export
from shapeproof.export.explore.beside_eager.runner import outcome, unequal
from shapeproof.export.shim.trees import leaves


class Model(nn.Module):
    """A model of a function, with some weights."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        self.linear, self.pairs, self.table = nn.Linear(4, 4), nn.Linear(2, 3), nn.Embedding(30, 4)
        self.eval()

    def forward(self, x, y=None):
        return self.function(self, x) if y is None else self.function(self, x, y)


def of_positions(m, x):
    return torch.relu(m.pairs(x.nonzero().float()))


def masked_pooling(m, x, y):
    kept = x[y > 0]
    return m.linear(kept).mean(0), kept.sum(0), kept.softmax(0)


def greatest(_, x, y):
    kept = x[y > 0]
    torch._check(kept.shape[0] >= 1)
    return kept.amax(0), *kept.max(0), kept[-1]


def routed_by_index(m, x, y):
    out = torch.zeros_like(x)
    for expert in range(3):
        rows = (y > expert).nonzero().squeeze(-1)
        out.index_add_(0, rows, m.linear(x[rows]) * (expert + 1))
    return out


def routed_by_mask(m, x, y):
    out = torch.zeros_like(x)
    for expert in range(3):
        mine = (y > expert) & (y <= expert + 1)
        out[mine] = m.linear(x[mine]) * (expert + 1)
    return out


def suppressed(_, x, y):
    """Boxes that no better box overlaps."""
    kept = y > 0.3
    scores, order = y[kept].sort(descending=True)
    boxes = torch.cat([x[:, :2], x[:, :2] + x[:, 2:].abs() + 0.1], 1)[kept][order]
    top = torch.maximum(boxes[:, None, :2], boxes[None, :, :2])
    end = torch.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    common = (end - top).clamp(min=0).prod(-1)
    area = (boxes[:, 2:] - boxes[:, :2]).prod(-1)
    overlapped = ((common / (area[:, None] + area[None] - common)).triu(1) > 0.3).any(0)
    return boxes[~overlapped], scores[~overlapped]


def ragged(m, x, y):
    mask = torch.arange(4)[None] < y.long().clamp(0, 4)[:, None]
    packed = m.linear.weight[0, 0] * x[mask]
    out = torch.zeros_like(x)
    out[mask] = packed
    return out, packed


def scattered(_, x):
    chosen = x > 0
    return x.masked_scatter(chosen, x.masked_select(chosen) * 2 + 1)


def distinct(_, x):
    values, inverse, counts = torch.unique(x.round(), return_inverse=True, return_counts=True)
    return values * 2, inverse, counts


def attention(_, x, y):
    kept = x[y > 0].view(1, 1, -1, 4)
    return F.scaled_dot_product_attention(kept, kept, kept)[0, 0]


def joined(_, x, y):
    return torch.cat([x[y > 0], x[y < 0] * 2], 0).relu()


def repeated(_, x, y):
    return torch.repeat_interleave(x, y.long().clamp(0, 3), dim=0)


def filtered_twice(_, x, y):
    kept = x[y > 0]
    return kept[kept[:, 0] > 0], kept / kept.shape[0]


MODELS = [masked_pooling, routed_by_mask, ragged]
SLOW = [
    of_positions,
    greatest,
    routed_by_index,
    suppressed,
    scattered,
    distinct,
    attention,
    joined,
    repeated,
    filtered_twice,
]
ROWS = 6


def data(count, seed):
    """Rows of which so many are chosen; the others hold large numbers, which would show."""
    torch.manual_seed(seed)
    chosen = torch.zeros(ROWS, dtype=torch.bool)
    chosen[torch.randperm(ROWS)[:count]] = True
    x = torch.randn(ROWS, 4)
    x[~chosen] = 1e3 * torch.randn(ROWS - count, 4)
    return x, torch.where(chosen, torch.rand(ROWS) * 2.5 + 0.4, -torch.rand(ROWS))


def cut(results, counts):
    """The rows that are meant of what a bounded program gives."""
    place = len(results) - len(counts)
    results, numbers = list(results[:place]), results[place:]
    for count, number in zip(counts, numbers, strict=True):
        assert 0 <= number <= count.bound
        for place, dim in count.places:
            results[place] = results[place].narrow(dim, 0, int(number))
    return results


def held(model, static, counts, arguments):
    module = static.module()
    for count in range(ROWS + 1):
        args = data(count, count)[:arguments]
        want, raised = outcome(model, args, {})
        got, refused = outcome(module, args, {})
        assert (raised is None) == (refused is None), (count, raised, refused)
        if raised is None:
            wanted = list(want) if isinstance(want, tuple) else [want]
            assert unequal(wanted, cut(leaves(got), counts)) is None, count


@pytest.mark.parametrize(
    "function",
    [*MODELS, *(pytest.param(each, marks=pytest.mark.slow) for each in SLOW)],
    ids=lambda each: each.__name__,
)
def test_a_bounded_program_is_right_at_every_count(function):
    arguments = function.__code__.co_argcount - 1
    model = Model(function)
    static, counts = export(model, data(3, 0)[:arguments]).bounded()
    tensors = (node.meta.get("val") for node in static.graph.nodes)
    assert all(isinstance(size, int) for each in tensors if isinstance(each, torch.Tensor) for size in each.shape)
    held(model, static, counts, arguments)


LOSSES = {
    "mse_loss": F.mse_loss,
    "smooth_l1_loss": lambda a, b: F.smooth_l1_loss(a, b, beta=0.5),
    "huber_loss": lambda a, b: F.huber_loss(a, b, delta=0.5),
    "binary_cross_entropy": lambda a, b: F.binary_cross_entropy(a.sigmoid(), b.sigmoid(), weight=b[:, :1].abs()),
    "with_logits": lambda a, b: F.binary_cross_entropy_with_logits(a, b.sigmoid(), pos_weight=torch.ones(4) * 2),
    "cross_entropy": lambda a, b: F.cross_entropy(a, b[:, 0].abs().long().clamp(0, 3), ignore_index=1),
    "label_smoothing": lambda a, b: F.cross_entropy(a, b[:, 0].abs().long().clamp(0, 3), label_smoothing=0.1),
    "probabilities": lambda a, b: F.cross_entropy(a, b.softmax(1), reduction="sum"),
    "kl_div": lambda a, b: F.kl_div(a.log_softmax(1), b.softmax(1), reduction="batchmean"),
    "l1_loss": lambda a, b: F.l1_loss(a, b, reduction="none").mean(1).sum(),
    "softmax": lambda a, b: (a.softmax(0) * b).sum(),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", LOSSES)
def test_a_bounded_loss_and_its_gradients_are_those_of_eager(name):
    """The faults: each was refused; of a mean, the gradients of no rows could not be traced."""
    model = Model(lambda m, x, y: LOSSES[name](m.linear(x[y > 0]), x[y > 0].cos()))
    program = export(model, data(3, 0))
    static, counts = program.bounded()
    held(model, static, counts, 2)
    joint = program.with_gradients().bounded()[0].module()
    for count in range(ROWS + 1):
        args = data(count, count)
        model.zero_grad()
        model(*args).backward()
        got = joint(*args, tangents=[torch.ones(())])[1]
        wanted = {key: value.grad for key, value in model.linear.named_parameters(prefix="linear")}
        assert unequal(list(wanted.values()), [got[key] for key in wanted]) is None, count


@pytest.mark.parametrize("value", [2e4, 6e4])
def test_a_mean_of_halves_is_finite_where_eagers_is(value):
    """The fault: they were added as float16, and the sum was infinite."""
    model = Model(lambda _, x, y: x[y > 0].mean(0))
    run = export(model, (torch.ones(8, 3).half(), torch.arange(8) % 2)).bounded()[0].module()
    args = torch.full((8, 3), value).half(), torch.ones(8, dtype=torch.int64)
    assert torch.equal(run(*args)[0], model(*args))


def test_numbers_from_data_are_doubles():
    """The fault: the quotient of two of them was computed as float32, whatever the dtype of the rows."""
    model = Model(lambda _, x, y: x[y > 0] * ((x[y > 0].shape[0] + 1) / 3))
    run = export(model, (torch.ones(6, 4).double(), torch.arange(6) % 2)).bounded()[0].module()
    args = torch.ones(6, 4).double(), torch.tensor([1, 1, 1, 0, 0, 0])
    assert torch.equal(run(*args)[0][:3], model(*args))


def test_the_counts_say_of_which_results_they_are():
    static, counts = export(Model(of_positions), (torch.ones(5, 5),)).bounded()
    assert [str(each) for each in counts] == ["<=25: result 0, dim 0"]
    result, count = static.module()(torch.eye(5))
    assert result.shape == (25, 3)
    assert count == 5


STEPS = {
    "relu": lambda _, r: r.relu(),
    "linear": lambda m, r: m.linear(r) if r.shape[-1] == 4 else r,
    "again": lambda _, r: r[r.flatten(1)[:, 0] > 0] if r.dim() == 2 else r,
    "centred": lambda _, r: r - r.mean(0, keepdim=True),
    "softmax": lambda _, r: r.softmax(0),
    "summed": lambda _, r: r.sum(0, keepdim=True),
    "cumsum": lambda _, r: r.cumsum(0),
    "gram": lambda _, r: r @ r.t() if r.dim() == 2 else r,
    "other gram": lambda _, r: r.t() @ r if r.dim() == 2 else r,
    "turned": lambda _, r: r.transpose(0, -1),
    "flat": lambda _, r: r.flatten(),
    "pairs": lambda _, r: r.reshape(-1, 2) if r.dim() == 2 and r.shape[-1] == 4 else r,
    "sorted": lambda _, r: r.sort(0).values,
    "flipped": lambda _, r: r.flip(0),
    "doubled": lambda _, r: torch.cat([r, r * 2], 0),
    "sized": lambda _, r: r * r.shape[0],
    "but first": lambda _, r: r[1:],
    "few": lambda _, r: r[:2],
    "positions": lambda _, r: r + torch.arange(r.shape[0]).view(-1, *[1] * (r.dim() - 1)),
    "filled": lambda _, r: r.masked_fill(r > 1, 0.5),
    "in place": lambda _, r: r.clone().mul_(2).add_(r),
    "looked up": lambda _, r: r[(r.flatten() > 0).nonzero().squeeze(-1).clamp(max=0)] if r.dim() == 1 else r,
    "spread": lambda _, r: r.std(0, keepdim=True),
    "rolled": lambda _, r: r.roll(1, 0),
    "any": lambda _, r: (r > 0).any(0, keepdim=True).float(),
    "logsumexp": lambda _, r: r.logsumexp(0, keepdim=True),
    "least": lambda _, r: torch.cat([r, r.new_zeros(1, *r.shape[1:])]).amin(0, keepdim=True),
}


def tried(seed):
    """Whether a random program is bounded; what is bounded is right at every count."""
    draw = random.Random(seed)
    names = [draw.choice(list(STEPS)) for _ in range(draw.randint(1, 4))]

    def function(m, x, y):
        rows = x[y > 0]
        for name in names:
            rows = STEPS[name](m, rows)
        return rows

    model = Model(function)
    try:
        static, counts = export(model, data(3, 0)).bounded()
    except (UsageError, torch._dynamo.exc.UserError, RuntimeError, ValueError) as error:
        if "gives different results" in str(error) or "raises a different error" in str(error):
            raise AssertionError(names) from error
        return False
    held(model, static, counts, 2)
    return True


@pytest.mark.thorough
def test_random_programs_are_right_at_every_count():
    assert sum(map(tried, range(3)))


@pytest.mark.slow
def test_150_random_programs_are_right_at_every_count():
    assert sum(map(tried, range(3, 153))) >= 50


def test_what_mixes_rows_is_refused_with_its_node_and_line():
    with pytest.raises(UsageError, match=r"`median` \(test_bounded.py:\d+ `.*mixes rows with what lies beyond them"):
        export(Model(lambda _, x, y: x[y > 0].median(0).values), data(3, 0)).bounded()


def middle(m, x, y):
    return m.linear(x[y > 0]).median(0).values.sum()


def test_a_refusal_of_a_joint_program_names_the_line_of_the_model():
    """The fault: it named a line that torch had generated."""
    with pytest.raises(UsageError, match=r"`median` \(test_bounded.py:\d+ `return m.linear.*median\(0\)"):
        export(Model(middle), data(3, 0)).with_gradients().bounded()


def test_a_size_without_a_bound_is_refused_with_its_line():
    with pytest.raises(UsageError, match=r"\(test_bounded.py:\d+ `.*repeat_interleave.* has no bound"):
        export(Model(lambda _, x, y: torch.repeat_interleave(x, y.long().abs(), dim=0)), data(3, 0)).bounded()


def test_a_dynamic_input_is_refused():
    program = export(nn.ReLU(), (torch.ones(3),), dynamic_shapes=({0: Dim("n", min=0, max=9)},))
    with pytest.raises(UsageError, match=r"input.shape\[0\] is dynamic"):
        program.bounded()


def test_a_view_of_what_is_chosen_that_is_written_into_is_refused():
    def function(_, x, y):
        kept = x[y > 0]
        torch._check(kept.shape[0] >= 1)
        kept[0].zero_()
        return kept

    with pytest.raises(UsageError, match=r"writes through a view, by `\w+` \(test_bounded.py:\d+ `kept\[0\].zero_"):
        export(Model(function), data(3, 0)).bounded()


def test_a_write_through_a_view_of_constant_memory_is_refused():
    class Packed(nn.Module):
        def forward(self, x):
            chosen, packed = x[x != 0], torch.zeros(6)
            packed[: chosen.shape[0]].copy_(chosen)
            return packed

    program = export(Packed(), (torch.tensor([0.0, 1.0, 2.0, 0.0, -3.0, 1.0]),))
    with pytest.raises(UsageError, match="writes through a view"):
        program.bounded()
