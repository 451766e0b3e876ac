"""`reshape` and its like lay a result one way at some sizes and another way at others, which matters where it tells."""

from __future__ import annotations

import itertools
import linecache
import operator
import random

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.export import Dim

from shapeproof.export import check
from shapeproof.export.explore.beside_eager.laid_out import laid_otherwise
from shapeproof.export.graph.aliasing import told_layouts
from shapeproof.export.shim.storages import storages
from tests.agreement import RAISES, outcome, same
from tests.export.operator_samples import SAMPLES
from tests.thoroughness import examples

ATEN = torch.ops.aten
POINTS = [*itertools.product(range(4), repeat=2)]
SIZES = {"x": {0: Dim("n", min=0, max=3), 1: Dim("m", min=0, max=3)}}


def model(forward):
    return type("Model", (torch.nn.Module,), {"forward": lambda _, x: forward(x)})()


def filled(point):
    n, m = point
    return torch.arange(1.0, 1 + n * m).reshape(n, m)


# ---------------------------------------------------------------------- pyramids


class ReferencePoints(torch.nn.Module):
    """The positions of each level, as deformable attention makes them."""

    def forward(self, *levels):
        found = []
        for level in levels:
            h, w = level.shape[-2:]
            y, x = torch.meshgrid(torch.linspace(0.5, h - 0.5, h), torch.linspace(0.5, w - 0.5, w), indexing="ij")
            y, x = (each.reshape(-1)[None].expand(level.shape[0], -1) for each in (y, x))
            found.append(torch.stack((x / w, y / h), -1))
        return torch.cat(found, 1), torch.cat([level.flatten(2).transpose(1, 2) for level in levels], 1)


class Anchors(torch.nn.Module):
    """The boxes at each position of each level, as detectors make them."""

    def forward(self, *levels):
        found = []
        for level in levels:
            h, w = level.shape[-2:]
            y, x = torch.meshgrid(torch.arange(h) * 8.0, torch.arange(w) * 8.0, indexing="ij")
            y, x = y.flatten(), x.flatten()
            boxes = torch.stack((x, y, x, y), 1).view(-1, 1, 4) + torch.tensor([[-4.0, -4, 4, 4], [-8, -4, 8, 4]])
            found.append(boxes.reshape(-1, 4))
        return torch.cat(found)


@pytest.mark.thorough
@pytest.mark.parametrize("levels", [3, 4])
@pytest.mark.parametrize("pyramid", [ReferencePoints, Anchors])
def test_a_pyramid_needs_one_trace_whatever_its_levels(pyramid, levels):
    """The fault: each level tripled the regions, so that three needed 27 traces and four were undecided."""
    sizes = [{0: Dim("b", min=1, max=4), 2: Dim(f"h{i}", min=1), 3: Dim(f"w{i}", min=1)} for i in range(levels)]
    inputs = tuple(torch.randn(2, 3, 9 - i, 7 - i) for i in range(levels))
    report = check(pyramid(), inputs, dynamic_shapes={"levels": tuple(sizes)})
    assert (report.status, report.statistics["traces"]) == ("proved", 1), str(report)
    for shape in ((1, 3, 1, 1), (1, 3, 1, 5), (2, 3, 4, 1), (3, 3, 2, 6)):
        given_levels = tuple(torch.randn(shape) for _ in inputs)
        assert same(pyramid()(*given_levels), report.program.module()(*given_levels))


# ---------------------------------------------------------------------- what tells


def turned(x):
    """At n = 1 a view of a permuted tensor, elsewhere a copy."""
    n, m = x.shape
    return (x + 1).unsqueeze(1).expand(n, 2, m).permute(2, 0, 1).reshape(m, n * 2)


def spread(x):
    """At n = 1 and at m = 1 a view whose elements share memory, elsewhere a copy."""
    return (x.sum() + 1).expand(x.shape).reshape(-1)


UNTOLD = {
    "joined": lambda x: torch.cat([turned(x), turned(x) * 2]),
    "stacked": lambda x: torch.stack([spread(x), spread(x)], -1).view(-1) + 1,
    "multiplied": lambda x: torch.nn.functional.linear(turned(x).t(), torch.ones(3, x.shape[1])),
    "of a dtype that the program asserts": lambda x: torch.cat([turned(x).to(torch.float64), turned(x).double()]),
    "split into rows of one": lambda x: torch.cat([spread(x).view(-1, 1)] * 2, 1),
}
TOLD = {
    "viewed": lambda x: turned(x).view(-1) + 1,
    "viewed after arithmetic": lambda x: (turned(x) * 2).unflatten(1, (2, -1)).sum() + turned(x).view(-1),
    "viewed behind a copy that is none elsewhere": lambda x: turned(x).contiguous().sum() + turned(x).view(-1),
    "read by its strides": lambda x: spread(x).as_strided((x.numel(),), (1,)) + 1,
    "written into": lambda x: spread(x).add_(1) * 2,
    "written into behind a view": lambda x: spread(x).unsqueeze(0).mul_(2) + 1,
    "viewed in a body": lambda x: torch.cond(x.sum() > 0, lambda y: y.view(-1) + 1, torch.flatten, (turned(x),)),
}


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.thorough) for name in UNTOLD])
def test_where_nothing_tells_the_layout_no_size_is_a_region(name):
    report = check(model(UNTOLD[name]), (torch.ones(3, 2),), dynamic_shapes=SIZES)
    assert (report.status, report.statistics["traces"]) == ("proved", 1), str(report)
    assert_it_serves(model(UNTOLD[name]), report.program)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.thorough if name != "viewed" else ()) for name in TOLD]
)
def test_where_something_tells_the_layout_a_model_that_raises_by_it_is_refuted(name):
    """Each raises at some sizes by the layout alone: at others the same operators run."""
    mod = model(TOLD[name])
    assert RAISES in [outcome(mod, (filled(point),)) for point in POINTS]
    report = check(mod, (torch.ones(3, 2),), dynamic_shapes=SIZES)
    assert report.status == "refuted", str(report)


def test_a_result_whose_strides_the_caller_sees_is_compared_where_they_differ():
    report = check(model(turned), (torch.ones(3, 2),), dynamic_shapes=SIZES)
    assert report.status == "proved"
    assert report.statistics["traces"] > 1
    assert_it_serves(model(turned), report.program)


# ---------------------------------------------------------------------- laws

VIEWS = """
{t}.unsqueeze(0) | {t}.unsqueeze(-1) | {t}.transpose(0, -1) | {t}[:1] | {t}[..., :1] | {t}[1:] | {t}[..., ::2]
{t}.expand(x.shape[0], *{t}.shape) | {t}.unsqueeze(-1).expand(*{t}.shape, x.shape[1])
{t}[:1].expand(x.shape[1], *{t}.shape[1:]) | {t}.unsqueeze(0).expand(2, *{t}.shape)
"""
EITHER = """
{t}.reshape(-1) | {t}.flatten() | {t}.flatten(-2) | {t}.reshape({t}.shape[-1], {t}.shape[0], *{t}.shape[1:-1])
{t}.reshape({t}.shape[0] * {t}.shape[-1], *{t}.shape[1:-1]) | {t}.contiguous() | {t}.transpose(0, -1).reshape(-1)
torch.einsum("a...,a...->...a", {t}, {t}) | torch.einsum("a...,b...->...ab", {t}, {t} + 1)
"""
NEW = "{t} + 1 | {t} * 2 + {t} | torch.cat([{t}, {t}]) | torch.stack([{t}, {t}], -1) | {t}.sum(0) | {t}.clone()"
ACTING = """
{t}.view(-1) | {t}.view(1, -1) | {t}.view({t}.shape[-1], -1) | {t}.view({t}.numel()) | {t}.add_(1) | {t}.zero_()
{t}[:1].add_(3) | x.mul_(2) | {t}.as_strided({t}.shape, {t}.stride()) | {t}.unflatten(0, (-1, 1)) | {t}.view_as({t})
({t} + 1 if {t}.is_contiguous() else {t} * 2)
"""


def calls(text):
    return [each.strip() for line in text.strip().splitlines() for each in line.split("|")]


KINDS = [*map(calls, (VIEWS, EITHER, NEW, ACTING))]


def source(rng):
    """A straight program of views, operators that share or copy, and operators that tell which."""
    lines, names = ["def forward(self, x):"], ["x"]
    for index in range(rng.randint(2, 6)):
        call = rng.choice(rng.choices(KINDS, [4, 5, 2, 2])[0])
        lines.append(f"    v{index} = " + call.format(t=rng.choice(names[-2:])))
        names.append(f"v{index}")
    returned = [name + rng.choice(["", " + 0", ".sum()"]) for name in rng.sample(names[1:], min(2, len(names) - 1))]
    return "\n".join([*lines, f"    return {', '.join(returned)},", ""])


def program(seed):
    text, name = source(random.Random(seed)), f"<laid {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    names = {"torch": torch}
    exec(compile(text, name, "exec"), names)  # noqa: S102 - the code is that of this test
    return type("Model", (torch.nn.Module,), {"forward": names["forward"]})(), text


def assert_it_serves(mod, proved):
    """Law: eager raises at no point of the domain; the program gives the same values, strides and shared memory."""
    run = proved.module()
    for point in POINTS:
        x, y = filled(point), filled(point)
        want, got = mod(x), run(y)
        want, got = ([each] if isinstance(each, torch.Tensor) else [*each] for each in (want, got))
        assert same([x, *want], [y, *got]), point
        assert laid_otherwise([x], want, [y], got) is None, point
        for mine, other in zip(want, got, strict=True):
            if mine.is_contiguous() and mine.numel():
                mine.view(-1)[:1] += 7
                other.view(-1)[:1] += 7
        assert same([x, *want], [y, *got]), f"after a write into the results, at {point}"


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(24))
@pytest.mark.filterwarnings("ignore")
def test_a_random_program_of_views_copies_and_writes_is_proved_only_if_it_is_right(seed):
    mod, text = program(seed)
    accepted = [point for point in POINTS if outcome(mod, (filled(point),)) != RAISES]
    if not accepted:
        return
    report = check(mod, (filled(accepted[-1]),), dynamic_shapes=SIZES)
    if report.status == "proved":
        assert accepted == POINTS, text
        assert_it_serves(mod, report.program)


def told(func, args, kwargs):
    """Whether a call whose tensors lie by their sizes is taken to tell that."""
    graph, given_tensors = torch.fx.Graph(), []

    def noted(value):
        if not isinstance(value, torch.Tensor):
            return value
        node = graph.placeholder(f"x{len(given_tensors)}")
        node.meta["val"] = value
        given_tensors.append(value)
        return node

    args, kwargs = torch.utils._pytree.tree_map(noted, (args, kwargs))
    graph.call_function(func, args, kwargs)
    return bool(told_layouts(graph, storages(given_tensors)))


def laid_apart(value):
    """The same elements, the last dimension first in memory and with gaps."""
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided or not value.dim():
        return value
    return torch.stack([value.movedim(-1, 0)] * 2, -1)[..., 0].movedim(0, -1)


def shapes_of(func, args, kwargs):
    try:
        found = func(*args, **kwargs)
    except (RuntimeError, IndexError, ValueError):
        return RAISES
    return [each.shape for each in torch.utils._pytree.tree_leaves(found) if isinstance(each, torch.Tensor)]


@pytest.mark.thorough
@settings(max_examples=examples(400), suppress_health_check=list(HealthCheck), deadline=None)
@given(st.data())
def test_an_operator_that_does_not_tell_goes_by_the_sizes_of_its_operands(data):
    name = data.draw(st.sampled_from(sorted(SAMPLES)))
    func, (args, kwargs) = operator.attrgetter(name)(torch.ops), data.draw(SAMPLES[name])
    if not told(func, args, kwargs):
        apart = torch.utils._pytree.tree_map(laid_apart, (args, kwargs))
        torch.manual_seed(0)
        want = shapes_of(func, args, kwargs)
        torch.manual_seed(0)
        assert shapes_of(func, *apart) == want, (func, args, kwargs)


@pytest.mark.parametrize("func", [ATEN.cat.default, ATEN.stack.default])
def test_a_joined_tensor_is_contiguous_unless_it_may_be_an_image(func):
    """A fact of torch that graph/aliasing.py goes by."""
    for shape in itertools.product(range(4), repeat=3):
        for order in itertools.permutations(range(3)):
            x = torch.ones([shape[at] for at in order]).permute([order.index(at) for at in range(3)])
            for operand in (x, x[..., ::2], x.new_ones(1).expand(shape)):
                for given_operand in (operand, operand.flatten(1)):
                    made = func([given_operand, given_operand])
                    assert made.is_contiguous() or made.dim() in {4, 5}, (shape, order)
