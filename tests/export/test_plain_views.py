"""Views that need no second run: a rule says what they give at every size, and eager gives that."""

from __future__ import annotations

import random

import pytest
import torch
from torch.export import Dim

from shapeproof.constraints.terms import constant
from shapeproof.export import check
from shapeproof.export.declare.inputs import declare
from shapeproof.export.ops.layouts import Sizes
from shapeproof.export.trace.calls.plain_views import is_plain
from shapeproof.export.verify import verified
from tests.agreement import agree
from tests.thoroughness import examples

ATEN = torch.ops.aten
CONCRETE = Sizes(constant, lambda _: False)
SIZES = (0, 1, 1, 2, 3)


def operand(rng):
    """A tensor: row by row, with gaps between rows, or permuted."""
    shape = [rng.choice(SIZES) for _ in range(rng.randint(0, 4))]
    kind = rng.random()
    if kind < 0.3 and shape:
        at = rng.randrange(len(shape))
        return torch.ones([*shape[:at], shape[at] + 2, *shape[at + 1 :]]).narrow(at, 1, shape[at])
    return torch.ones(shape).permute(rng.sample(range(len(shape)), len(shape))) if kind < 0.5 else torch.ones(shape)


def asked(rng, x):
    """Sizes of a view, which often fit: dimensions are merged, split, and left open."""
    sizes = list(x.shape)
    for _ in range(rng.randint(0, 3)):
        at = rng.randrange(len(sizes) + 1)
        if rng.random() < 0.5 and at + 1 < len(sizes):
            sizes[at : at + 2] = [sizes[at] * sizes[at + 1]]
        else:
            sizes.insert(at, rng.choice((1, 1, 1, 2)))
    if rng.random() < 0.4 and sizes:
        sizes[rng.randrange(len(sizes))] = -1
    return sizes


def call(rng):
    x = operand(rng)
    func = rng.choice((ATEN.view.default, ATEN.reshape.default, ATEN.unsqueeze.default, ATEN.transpose.int))
    if func is ATEN.unsqueeze.default:
        return func, (x, rng.randint(-x.dim() - 1, x.dim()))
    if func is ATEN.transpose.int and x.dim():
        return func, (x, *(rng.randint(-x.dim(), x.dim() - 1) for _ in range(2)))
    if rng.random() < 0.2:
        order = rng.sample(range(x.dim()), x.dim())
        return ATEN.permute.default, (x, [dim - rng.choice((0, x.dim())) for dim in order])
    return rng.choice((ATEN.view.default, ATEN.reshape.default)), (x, asked(rng, x))


def elsewhere_laid(rng, x):
    """The tensor with other strides where they reach no element."""
    strides = [
        rng.choice((0, 1, 5, stride)) if size == 1 or x.numel() == 0 else stride
        for size, stride in zip(x.shape, x.stride(), strict=True)
    ]
    return x.as_strided(x.shape, strides)


def reaching(x):
    """What tells where the elements of a tensor lie."""
    strides = [step for size, step in zip(x.shape, x.stride(), strict=True) if size > 1] if x.numel() else []
    return tuple(x.shape), strides, x.storage_offset() if x.numel() else None, x.untyped_storage().data_ptr()


def test_what_the_rules_say_is_what_eager_gives_in_every_layout():
    """Law: where the rule holds of a call and its result, eager raises nothing, and only idle strides may differ."""
    rng, plain = random.Random(0), 0
    for _ in range(examples(3000)):
        func, args = call(rng)
        try:
            result = func(*args)
        except RuntimeError:
            continue
        if is_plain(func, (args, {}), result, CONCRETE):
            plain += 1
            other = elsewhere_laid(rng, args[0])
            assert reaching(func(other, *args[1:])) == reaching(result), (func, args[0].shape, args[1:])
    assert plain > examples(3000) // 4


@pytest.mark.parametrize("change", [lambda x: x.clone(), lambda x: x[..., :1], lambda x: x.view(torch.int32)])
def test_another_result_than_the_view_is_not_taken_for_it(change):
    x = torch.ones(3, 2)
    func, args = ATEN.view.default, (x, [2, 3])
    assert is_plain(func, (args, {}), func(*args), CONCRETE)
    assert not is_plain(func, (args, {}), change(func(*args)), CONCRETE)


def written_through(x):
    x.t().reshape(-1).add_(1)
    return x


ROWS = Dim("n", min=0, max=6)
PLAIN = {
    "merged": lambda x: x.view(-1, 2) + 1,
    "split": lambda x: x.view(x.shape[0], 2, 2).transpose(1, 2).reshape(-1) * 2,
    "part of a row": lambda x: x[:, :2].view(x.shape[0], 2, 1).unsqueeze(0) + 1,
}
OTHER = {
    "left open where there may be no rows": lambda x: x.view(x.shape[0], -1) + 1,
    "copied": lambda x: x.t().reshape(-1) + 1,
    "written": lambda x: x.clone().view(-1).add_(1).view(-1, 4) + x.reshape(-1, 4),
    "written through": lambda x: written_through(x.clone()),
    "joined": lambda x: x.reshape(x.shape[0] * 4 // 2, 2) + 1,
    "no sizes that fit": lambda x: x.view(4, -1) if x.shape[0] != 1 else x,
}


def model(forward):
    return type("Model", (torch.nn.Module,), {"forward": lambda _, x: forward(x)})()


@pytest.mark.parametrize("forward", [*PLAIN.values(), *OTHER.values()], ids=[*PLAIN, *OTHER])
def test_the_verdict_is_that_of_a_trace_of_every_cell(forward):
    mod, example, shapes = model(forward), (torch.randn(3, 4),), {"x": {0: ROWS}}
    report = check(mod, example, dynamic_shapes=shapes)
    slow = verified(mod, declare(mod, example, None, shapes), in_place=False)
    assert report.status == slow.status
    if report.status == "proved":
        assert all(agree(mod, report.program.module(), (torch.randn(n, 4),)) for n in range(7))
