"""Views that need no second run: a rule says what they give at every size, and eager gives that."""

from __future__ import annotations

import itertools
import random
import sys
from collections import Counter

import pytest
import torch
from torch.export import Dim

from shapeproof.constraints.terms import constant
from shapeproof.export import check
from shapeproof.export.declare.inputs import declare
from shapeproof.export.ops.shapes.layouts import Sizes
from shapeproof.export.trace.calls.repeats import Repeats, gives_its_operand, plain_view
from shapeproof.export.verify import verified
from tests.agreement import agree
from tests.thoroughness import examples

ATEN = torch.ops.aten
TOLD = Sizes(constant, lambda formula: formula.constant is True)
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


def ends(rng, size):
    return [rng.choice((None, 0, 1, 2, size, size - 1, -1, -size, -size - 1, size + 1, sys.maxsize)) for _ in range(2)]


def view_call(rng):
    """A call of any view that has a rule: with sizes, positions and dims that often fit."""
    kind, x = rng.random(), operand(rng)
    if kind < 0.4 or not x.dim():
        return call(rng)
    if kind < 0.6:
        lead = [rng.choice((0, 1, 2, -1)) for _ in range(rng.choice((0, 0, 1, 2)))]
        sizes = [rng.choice((0, 1, 3)) if rng.random() < 0.5 and size == 1 else size for size in x.shape]
        return ATEN.expand.default, (x, [*lead, *(rng.choice((size, size, -1)) for size in sizes)])
    dim = rng.randrange(-x.dim(), x.dim())
    if kind < 0.8:
        return ATEN.slice.Tensor, (x, dim, *ends(rng, x.shape[dim]), rng.choice((1, 1, 2)))
    return ATEN.select.int, (x, dim, rng.randrange(-x.shape[dim] - 1, x.shape[dim] + 1))


def test_a_view_that_is_not_run_is_eagers_in_every_layout():
    """Law: where a rule gives a view, eager raises nothing, and gives it; an exact one has its idle strides, too."""
    rng, known = random.Random(1), Counter()
    for _ in range(examples(6000)):
        func, args = view_call(rng)
        x = elsewhere_laid(rng, args[0])
        laid = plain_view(func, ((x, *args[1:]), {}), TOLD, lambda term: term.constant_value)
        if laid is not None:
            known[func] += 1
            result = func(x, *args[1:])
            assert reaching(result) == reaching(x.as_strided(laid.sizes, laid.strides, laid.offset)), (func, args)
            if laid.exact:
                assert (list(result.stride()), result.storage_offset()) == (list(laid.strides), laid.offset), func
    assert len(known) == 8
    assert min(known.values()) > examples(6000) // 100


def converted(rng):
    x = operand(rng)
    dtype, memory = rng.choice((torch.float32, torch.float64)), rng.choice((None, *MEMORY))
    return rng.choice(
        (
            (ATEN.contiguous.default, (x,), {"memory_format": rng.choice(MEMORY[:2])} if memory else {}),
            (ATEN.to.dtype, (x, dtype), {"copy": rng.random() < 0.2, "memory_format": memory}),
            (ATEN.to.device, (x, torch.device("cpu"), dtype), {"copy": rng.random() < 0.2, "memory_format": memory}),
            (ATEN.to.dtype_layout, (x,), {"dtype": rng.choice((None, dtype)), "memory_format": memory}),
        )
    )


MEMORY = (torch.contiguous_format, torch.channels_last, torch.preserve_format)


def test_an_operand_that_is_not_run_is_what_eager_returns():
    rng, known = random.Random(2), Counter()
    for _ in range(examples(2000)):
        func, args, kwargs = converted(rng)
        x = elsewhere_laid(rng, args[0])
        if gives_its_operand(func, ((x, *args[1:]), kwargs), TOLD):
            known[func] += 1
            assert func(x, *args[1:], **kwargs) is x
    assert len(known) == 4
    assert min(known.values()) > examples(2000) // 100


NOT_RUN = {
    "expanded": lambda x: x[:, None].expand(-1, 3, 4) + x[:, None],
    "expanded to what may be 1": lambda x: torch.ones(1, 4).expand(x.shape[0], 4) + x,
    "sliced": lambda x: x[:, 1:-1] + x[..., :2] * x[:, ::2],
    "selected": lambda x: x[:, -1] + x.select(1, 0),
    "left open": lambda x: x.reshape(2, -1).transpose(0, 1) + 1,
    "itself": lambda x: x.contiguous().to(x.dtype).to("cpu") + 1,
    "written into": lambda x: (x[:, 1:].add_(1), x.view(-1).mul_(2), x.unsqueeze(0).contiguous().add_(1), x)[-1],
    "tracked": lambda x: x.clone().requires_grad_().t().reshape(-1).view(-1)[:] * 2,
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", NOT_RUN)
def test_a_program_with_views_that_are_not_run_is_the_one_where_they_are(name, monkeypatch):
    mod = type("Model", (torch.nn.Module,), {"forward": lambda _, x: NOT_RUN[name](x)})()
    args, shapes = (torch.randn(3, 4),), {"x": {0: Dim("n", min=0, max=6)}}
    report = check(mod, args, dynamic_shapes=shapes)
    monkeypatch.setattr(Repeats, "given", lambda *_: None)
    run = check(mod, args, dynamic_shapes=shapes)
    assert report.status == run.status == "proved", str(report)
    assert str(report.program.graph) == str(run.program.graph)
    for one, other in zip(report.program.graph.nodes, run.program.graph.nodes, strict=True):
        mine, others = (getattr(each.meta.get("val"), "shape", None) for each in (one, other))
        assert str(mine) == str(others)
    assert all(agree(mod, report.program.module(), (torch.randn(n, 4),)) for n in range(7))


def test_a_slice_whose_end_is_known_only_in_a_region_keeps_its_size_where_torch_runs_the_graph_again():
    """The fault: a branch of torch.cond was traced twice, and had another slice when the side of a branch was known."""

    class Branching(torch.nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda y: y[:5].sum(), lambda y: y.sum(), (x,))

    report = check(Branching(), (torch.ones(7, 2),), dynamic_shapes=({0: Dim("n", min=2, max=9)},))
    assert report.status == "proved", str(report)


class AsMany(torch.nn.Module):
    def forward(self, x, y):
        return x.view(y.shape[0], 4) * 2


def test_a_view_whose_elements_are_known_to_be_as_many_is_right():
    """The count before and after is the same by a declaration alone: `h*w == 4*n`."""
    shapes = ({0: Dim("h", min=0, max=8), 1: Dim("w", min=0, max=8)}, {0: Dim("n", min=0, max=16)})
    report = check(AsMany(), (torch.ones(2, 6), torch.ones(3)), dynamic_shapes=shapes, constraints=["h*w == 4*n"])
    assert report.status == "proved", str(report)
    run = report.program.module()
    for h, w in itertools.product(range(9), repeat=2):
        if h * w % 4 == 0:
            assert agree(AsMany(), run, (torch.randn(h, w), torch.ones(h * w // 4)))


def test_a_view_whose_elements_are_not_known_to_be_as_many_is_refuted():
    shapes = ({0: Dim("h", min=0, max=8), 1: Dim("w", min=0, max=8)}, {0: Dim("n", min=0, max=16)})
    report = check(AsMany(), (torch.ones(2, 6), torch.ones(3)), dynamic_shapes=shapes, constraints=["h*w >= 4*n"])
    assert report.status == "refuted"
