"""Two programs that run the same operators on equal operands, writes included, are the same: none is run again."""

# ruff: noqa: RUF034 - the two sides of a branch are to be the same

from __future__ import annotations

import contextlib

import pytest
import torch
from torch.export import Dim
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

from shapeproof.export import check
from shapeproof.export.explore.compare import equivalence, rerun
from shapeproof.export.graph.nodes import keeps_layouts
from tests.agreement import is_true_of

ROWS = Dim("n", min=0, max=6)


def model_of(forward):
    return type("Model", (torch.nn.Module,), {"forward": lambda _, x: forward(x)})()


def is_one(x):
    return x.shape[0] == 1


def through_a_view(x):
    y = x * 2
    y[:, 1:].mul_(3)
    return y.cumsum(0)


def a_copy_or_a_view(x):
    z = x * 2
    z.t().reshape(-1).add_(1)
    return z


def a_rank(x):
    y = x * 2
    y.squeeze_(0)
    return y.add_(1)


WRITES = {
    "into a copy": lambda x: (x + 1).add_(1) if is_one(x) else (x + 1).add_(1),
    "through a view": lambda x: through_a_view(x) if is_one(x) else through_a_view(x),
    "into an input": lambda x: x.add_(1).cumsum(0) if is_one(x) else x.add_(1).cumsum(0),
    "another number": lambda x: x.add_(1) if is_one(x) else x.add_(2),
    "another part": lambda x: (y := x * 2, y[:, 1:].mul_(3) if is_one(x) else y[:, :3].mul_(3), y)[-1],
    "another order": lambda x: (y := x * 2, y.mul_(3).add_(1) if is_one(x) else y.add_(1).mul_(3), y)[-1],
    "a copy or a view": lambda x: (y := x.t().contiguous(), y.add_(1) if is_one(x) else y.add_(1), x)[-1],
    "a copy or a view, of a result": lambda x: a_copy_or_a_view(x) if is_one(x) else a_copy_or_a_view(x),
    "a rank": lambda x: a_rank(x) if is_one(x) else a_rank(x),
    "after a look": lambda x: (y := x * 2, z := y.sum(), y.add_(1), z)[-1] if is_one(x) else (x * 2).sum(),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_model_that_writes_has_a_true_verdict(name):
    mod = model_of(WRITES[name])
    report = check(mod, (torch.randn(5, 4),), dynamic_shapes={"x": {0: ROWS}})
    assert is_true_of(report, mod, ((torch.randn(n, 4),) for n in range(7)))


@pytest.mark.parametrize("name", ["into a copy", "through a view", "into an input"])
def test_no_operator_is_run_again_where_both_write_alike(name, monkeypatch):
    compared, again = [], []
    difference = equivalence.difference
    monkeypatch.setattr(equivalence, "difference", lambda *a: (compared.append(difference(*a)), compared[-1])[1])
    monkeypatch.setattr(rerun, "run_again", lambda *_: again.append(1))
    report = check(model_of(WRITES[name]), (torch.randn(5, 4),), dynamic_shapes={"x": {0: Dim("n", min=1, max=6)}})
    assert report.status == "proved", str(report)
    assert compared
    assert not again


@pytest.mark.parametrize(
    ("forward", "kept"),
    [
        (lambda x: (x + 1).add_(1), True),
        (lambda x: (x + 1).squeeze_(0), False),
        (lambda x: torch.cond(x.sum() > 0, lambda x: x.clone().add_(1), lambda x: x + 1, [x]), False),
    ],
)
def test_what_keeps_layouts(forward, kept):
    graph = torch.export.export(model_of(forward), (torch.randn(3, 4),)).graph
    assert keeps_layouts(graph) is kept


LARGE = 200_000_000
"""More elements than an input is given that is run beside eager: only what is proved counts."""


@contextlib.contextmanager
def default_dtype():
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


def attended(x):
    heads = (x[:1] * torch.ones(1, 3, 2, 4)).transpose(1, 2)
    return functional.scaled_dot_product_attention(heads, heads, heads)


@contextlib.contextmanager
def in_half_precision():
    torch.set_float32_matmul_precision("medium")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision("highest")


@contextlib.contextmanager
def seeded():
    torch.manual_seed(5)
    yield


def drawn_again(_):
    with torch.random.fork_rng(devices=()):
        first = torch.rand(2)
    return first, torch.rand(2)


def drawn(_):
    return torch.rand(2), torch.rand(2)


class Doubles(TorchDispatchMode):
    """A dispatch mode of a user's own."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {})) * (2 if func is torch.ops.aten.sin.default else 1)


SWITCHED = {
    "made": (default_dtype, lambda _: torch.ones(2)),
    "divided": (default_dtype, lambda x: x.long() / 3),
    "written into": (default_dtype, lambda _: torch.rand(2).add_(1)),
    "attention": (lambda: sdpa_kernel(SDPBackend.MATH), attended),
    "precision": (in_half_precision, lambda x: x @ x.t()),
    "a seed": (seeded, drawn),
    "a mode of one's own": (Doubles, torch.sin),
}


@pytest.mark.parametrize("name", SWITCHED)
@pytest.mark.parametrize("at", [LARGE, LARGE + 1], ids=["from there on", "there"])
def test_a_mode_that_another_branch_switches_is_a_difference(name, at):
    """The fault: the graphs are in step, since no operator names such a mode; other dtypes and strides were proved."""
    switched, compute = SWITCHED[name]

    def there(x):
        with switched():
            return compute(x)

    assert_differs(compute, there, at)


@pytest.mark.parametrize("at", [LARGE, LARGE + 1], ids=["from there on", "there"])
def test_random_numbers_that_are_drawn_again_are_a_difference(at):
    assert_differs(drawn, drawn_again, at)


def assert_differs(compute, elsewhere, at):
    def forward(x):
        there = x.shape[0] >= at if at == LARGE else x.shape[0] == at
        return elsewhere(x) if there else compute(x)

    report = check(model_of(forward), (torch.arange(6.0),), dynamic_shapes={"x": {0: Dim("n", min=5, max=2 * LARGE)}})
    assert report.status != "proved", str(report)
