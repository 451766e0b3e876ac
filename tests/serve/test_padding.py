"""Padding: what is proved to keep rows apart does, on random programs with NaN in the padding."""

from __future__ import annotations

import random

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

from shapeproof.constraints.errors import UsageError
from shapeproof.export import export
from shapeproof.export.explore.beside_eager.runner import unequal
from shapeproof.serve import buckets


class Made(nn.Module):
    """A model of a function, with some weights."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        self.linear, self.norm, self.table = nn.Linear(4, 4), nn.LayerNorm(4), nn.Embedding(10, 4)
        self.eval()

    def forward(self, x):
        return self.function(self, x)


STEPS = {
    "relu": lambda _, x: x.relu(),
    "linear": lambda m, x: m.linear(x) if x.shape[-1] == 4 else x,
    "norm": lambda m, x: m.norm(x) if x.shape[-1] == 4 else x,
    "softmax 0": lambda _, x: x.softmax(0),
    "softmax last": lambda _, x: x.softmax(-1),
    "sum 0": lambda _, x: x.sum(0) if x.dim() > 1 else x,
    "mean 1": lambda _, x: x.mean(1, keepdim=True) if x.dim() > 1 else x,
    "centred": lambda _, x: x - x.mean(0, keepdim=True),
    "cumsum 0": lambda _, x: x.cumsum(0),
    "cumsum 1": lambda _, x: x.cumsum(1) if x.dim() > 1 else x,
    "transposed": lambda _, x: x.transpose(0, -1),
    "swapped": lambda _, x: x.transpose(0, 1) if x.dim() > 1 else x,
    "flat": lambda _, x: x.flatten(),
    "flat 2": lambda _, x: x.flatten(0, 1) if x.dim() > 1 else x,
    "unflat": lambda _, x: x.unflatten(0, (-1, 3)) if isinstance(x.shape[0], int) and x.shape[0] % 3 == 0 else x,
    "fours": lambda _, x: x.reshape(-1, 4) if x.shape[-1] == 4 else x,
    "threes": lambda _, x: x.view(3, -1, *x.shape[1:]) if x.dim() == 2 and x.shape[-1] == 4 else x,
    "gram": lambda _, x: x @ x.transpose(-1, -2) if x.dim() > 1 else x,
    "gram, other": lambda _, x: x.transpose(-1, -2) @ x if x.dim() > 1 else x,
    "positions": lambda _, x: x + torch.arange(x.shape[0]).view(-1, *[1] * (x.dim() - 1)),
    "sized": lambda _, x: x / x.shape[0],
    "first": lambda _, x: x[:1],
    "but first": lambda _, x: x[1:],
    "but last": lambda _, x: x[:-1],
    "seconds": lambda _, x: x[::2],
    "flipped": lambda _, x: x.flip(0),
    "rolled": lambda _, x: x.roll(1, -1),
    "doubled": lambda _, x: torch.cat([x, x], 0),
    "doubled last": lambda _, x: torch.cat([x, x * 2], -1),
    "stacked": lambda _, x: torch.stack([x, x.relu()], 0) if x.dim() < 4 else x,
    "in place": lambda _, x: x.clone().add_(1).mul_(x),
    "filled": lambda _, x: x.masked_fill(x > 0, 0.0),
    "tril": lambda _, x: x.tril() if x.dim() > 1 else x,
    "where": lambda _, x: torch.where(x > 0, x, x.log()),
    "padded": lambda _, x: F.pad(x, (1, 1)),
    "repeated": lambda _, x: x.repeat(2, *[1] * (x.dim() - 1)),
    "expanded": lambda _, x: x.unsqueeze(0).expand(2, *x.shape) if x.dim() < 4 else x,
    "sorted": lambda _, x: x.sort(-1).values,
    "greatest": lambda _, x: x.amax(-1, keepdim=True),
    "chosen": lambda _, x: x[..., torch.tensor([0])],
    "einsum": lambda _, x: torch.einsum("ab,cb->ac", x, x) if x.dim() == 2 else x,
    "einsum, other": lambda _, x: torch.einsum("ab,ac->bc", x, x) if x.dim() == 2 else x,
    "attention": lambda _, x: F.scaled_dot_product_attention(x, x, x) if x.dim() > 2 else x,
}


def random_program(seed):
    draw = random.Random(seed)
    names = [draw.choice(list(STEPS)) for _ in range(draw.randint(1, 5))]

    def function(model, x):
        for name in names:
            x = STEPS[name](model, x)
        return x

    place = draw.randint(0, 2)
    example = torch.randn(*(5 if dim == place else size for dim, size in enumerate((3, 2, 4))))
    return names, place, Made(function), example


def held(seed):
    """Whether a random program is proved to keep rows apart; what is proved does."""
    names, place, model, example = random_program(seed)
    try:
        program = export(model, (example,), dynamic_shapes={"x": {place: Dim("n", min=2, max=9)}})
        found = buckets(program, at_most=2)
    except (UsageError, torch._dynamo.exc.UserError, RuntimeError, ValueError):
        return False
    if found.padding.status != "proved":
        return False
    for size in range(2, found.sizes[0] + 1):
        x = torch.randn(*(size if dim == place else each for dim, each in enumerate(example.shape)))
        for fill in (float("nan"), float("inf"), -1e30):
            got = found.padding.call(found.corner_of, (x,), {}, fill=fill)
            assert not unequal(model(x), got), (names, place, size, fill)
    return True


@pytest.mark.thorough
def test_what_is_proved_to_keep_rows_apart_does():
    assert sum(map(held, range(25))) > 3


@pytest.mark.slow
def test_what_is_proved_of_300_programs_is_so():
    assert sum(map(held, range(25, 325))) > 40


@pytest.mark.parametrize(
    ("seen", "status"),
    [
        (lambda x: x.view(-1, 3), "proved"),
        (lambda x: x.unflatten(1, (1, 3))[:, 0, 1:], "proved"),
        (lambda x: x.detach().unsqueeze(1).expand(-1, 2, -1), "proved"),
        (lambda x: 9 - x, "tried"),
    ],
)
def test_padding_of_an_index_looks_up_row_0_through_every_view(seen, status):
    model = Made(lambda m, x: m.table(seen(x)))
    program = export(model, (torch.zeros(5, 3, dtype=torch.int64),), dynamic_shapes={"x": {0: Dim("n", min=2, max=9)}})
    found = buckets(program, at_most=2)
    assert found.padding.status == status
    for size in range(2, 10):
        x = torch.randint(0, 10, (size, 3))
        assert not unequal(model(x), found.padding.call(found.corner_of, (x,), {}))


@pytest.mark.quick
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
def test_an_index_made_of_floats_is_not_proved_since_nan_is_no_row(dtype):
    """The fault: proved, with an error where the padding was NaN."""
    model = Made(lambda m, x: m.table(x.to(torch.int64)))
    program = export(model, (torch.zeros(5, dtype=dtype),), dynamic_shapes={"x": {0: Dim("n", min=2, max=9)}})
    with pytest.raises(UsageError, match=r"`embedding`"):
        buckets(program, at_most=2)


def of_one_row(equation):
    model = Made(lambda _, x: torch.einsum(equation, x, torch.ones(1, 3)))
    return export(model, (torch.randn(5, 2),), dynamic_shapes={"x": {0: Dim("n", min=2, max=9)}})


def test_a_letter_of_an_einsum_may_be_broadcast():
    assert buckets(of_one_row("ni,nj->nij"), at_most=2).padding.status == "proved"
    with pytest.raises(UsageError, match=r"`einsum`.* mixes rows"):
        buckets(of_one_row("ni,nj->ij"), at_most=2)


def first_rows_of(made):
    """Writes into the first rows of a tensor that is larger."""

    def function(_, x):
        base = made(x)
        base[: x.shape[0]].fill_(1)
        return base.sum(0) + x[:, :1].sum() * 0 if base.dim() == 1 else base

    return function


WRITTEN = {
    "of constant size": first_rows_of(lambda _: torch.zeros(16, 4)),
    "twice as long": first_rows_of(lambda x: x.new_zeros(2 * x.shape[0], 4)),
    "flat": lambda _, x: (y := x.clone(), y.view(-1)[: x.shape[0]].fill_(5))[0],
}


@pytest.mark.quick
@pytest.mark.parametrize("function", WRITTEN.values(), ids=WRITTEN)
def test_a_write_through_a_view_is_refused(function):
    """Where the view varies and its base does not, what is beyond the first rows of the base is written, too."""
    program = export(Made(function), (torch.randn(3, 4),), dynamic_shapes=({0: Dim("n", min=1, max=9)},))
    with pytest.raises(UsageError, match="writes through a view"):
        _ = buckets(program, at_most=2).padding


class Bags(nn.Module):
    """A table looked up in bags; the padding of an index looks up row 0."""

    def __init__(self, mode):
        super().__init__()
        self.bag = nn.EmbeddingBag(6, 4, mode=mode)

    def forward(self, x):
        return self.bag(x)


def of_floats(function):
    return Made(lambda _, x: function(x)), torch.rand(3, 4)


LEAKING = {
    "clamped by a size": of_floats(lambda x: x.clamp(max=x.shape[0])),
    "clamped by minus a size": of_floats(lambda x: x.clamp(min=-x.shape[0])),
    "beyond a size": of_floats(lambda x: torch.where(x > x.shape[0], x, 0.0)),
    "a remainder": of_floats(lambda x: x.fmod(x.shape[0] + 1)),
    "half of the rows": of_floats(lambda x: torch.where((torch.arange(x.shape[0]) < x.shape[0] // 2)[:, None], x, 0.0)),
    "the median": of_floats(lambda x: x - x.median()),
    "bags, mean": (Bags("mean"), torch.zeros(2, 3, dtype=torch.int64)),
    "bags, sum": (Bags("sum"), torch.zeros(2, 3, dtype=torch.int64)),
    "bags, max": (Bags("max"), torch.ones(2, 3, dtype=torch.int64)),
}


@pytest.mark.quick
@pytest.mark.parametrize("name", LEAKING)
def test_what_leaks_at_some_sizes_or_for_some_values_alone_is_found(name):
    """The fault: trials were of values like the example's and of two lengths, at which these leave no trace."""
    model, example = LEAKING[name]
    shapes = {"x": {1 if name.startswith("bags") else 0: Dim("n", min=2, max=9)}}
    program = export(model.eval(), (example,), dynamic_shapes=shapes)
    with pytest.raises(UsageError, match="padding changes what the program gives"):
        _ = buckets(program, at_most=2).padding


@pytest.mark.quick
@pytest.mark.parametrize("function", [lambda x: torch.fft.rfft(x).abs(), lambda x: torch.renorm(x, 2, 0, 1.0)])
def test_what_has_no_rule_and_leaks_nowhere_is_tried(function):
    model, example = of_floats(function)
    program = export(model, (example,), dynamic_shapes={"x": {0: Dim("n", min=2, max=9)}})
    found = buckets(program, at_most=3).padding
    assert found.status == "tried"
    assert len(found.tried) > 3
