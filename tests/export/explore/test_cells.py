"""A cell of the domain is traced like any other part: a model whose branch decides what operators give is served."""

# ruff: noqa: RUF034 - the two sides of a branch are to be the same

from __future__ import annotations

import pytest
import torch
from torch.export import Dim
from torch.nn import functional

from shapeproof.export import check
from tests.agreement import agree, is_true_of

ROWS = Dim("n", min=0, max=6)

LAYERS = (
    lambda x: functional.scaled_dot_product_attention(x[None], x[None], x[None])[0],
    lambda x: torch.cat([x, x.t().reshape(x.shape)], 1).mean(1, keepdim=True).expand_as(x),
    lambda x: x.cumsum(0).flip(0).double().float(),
    lambda x: torch.where(x > 0, x, -x).t().clone().t(),
    lambda x: functional.dropout(x.t() @ x, 0.5, training=False).sum() + x,
    lambda x: (x[:, None] * x[None]).sum(0),
)


def layered(x):
    """All layers, a branch on the number of rows whose sides do the same, and all layers once more."""
    for layer in LAYERS:
        x = layer(x)
    x = x * 2 if x.shape[0] == 1 else x * 2
    for layer in LAYERS:
        x = layer(x)
    return x


def model_of(forward):
    return type("Model", (torch.nn.Module,), {"forward": lambda _, x: forward(x)})()


@pytest.mark.thorough
@pytest.mark.parametrize("tracked", [False, True], ids=["without gradients", "with gradients"])
def test_a_cell_is_given_what_a_run_in_it_gives(tracked):
    mod, args = model_of(layered), (torch.randn(3, 4, requires_grad=tracked),)
    with torch.set_grad_enabled(tracked):
        report = check(mod, args, dynamic_shapes={"x": {0: ROWS}})
    assert report.status == "proved", str(report)
    assert report.statistics["traces"] > 1
    assert all(agree(mod, report.program.module(), (torch.randn(n, 4),)) for n in range(7))


RESTRICTED = {
    "what holds on one side of a branch": lambda x: (x.t() @ x if x.shape[0] > 3 else x.t() @ x) * x.squeeze(0).sum(),
    "a rank after a branch": lambda x: (x * 2 if x.shape[0] > 3 else x * 3).squeeze(0).cumsum(0),
    "a stride that Python reads": lambda x: x.t().clone() * (x.t().clone().stride(1) if x.shape[0] > 3 else 7),
    "written after a copy or a view": lambda x: (x.cumsum(0), x.t().contiguous().add_(1 if x.shape[0] > 3 else 2), x),
    "data": lambda x: (x.cumsum(0) if x.shape[0] > 3 else x)[x[:, 0] > 0].cumsum(0),
}


@pytest.mark.parametrize("name", RESTRICTED)
def test_a_model_has_a_true_verdict_in_each_cell(name):
    mod = model_of(RESTRICTED[name])
    report = check(mod, (torch.randn(5, 4),), dynamic_shapes={"x": {0: ROWS}})
    assert is_true_of(report, mod, ((torch.randn(n, 4),) for n in range(7)))


OF_ONE_WIDTH = {
    "reshape": lambda x: x.squeeze(2).reshape(-1),
    "of every dim": lambda x: x.squeeze().reshape(-1),
    "of two dims": lambda x: x.squeeze((1, 2)).flatten() * 2,
    "view": lambda x: x.squeeze(-1).view(-1) * 2,
    "and back": lambda x: x.squeeze(2).view(x.shape) * 2,
    "one that is taken away": lambda x: x[:, None].squeeze((1, 3)).reshape(x.shape[0], -1) + 1,
}


@pytest.mark.parametrize("name", OF_ONE_WIDTH)
def test_a_squeeze_that_makes_no_difference_is_proved(name):
    model = model_of(OF_ONE_WIDTH[name])
    report = check(model, (torch.ones(3, 4, 5),), dynamic_shapes=({2: Dim("w", min=1, max=9)},))
    assert report.status == "proved", str(report)
    for run in (report.program.module(), report.program.run_decompositions().module()):
        assert all(torch.equal(run(x), model(x)) for x in (torch.randn(3, 4, w) for w in range(1, 10)))


@pytest.mark.parametrize(
    "function", [lambda x: x.squeeze(2), lambda x: x.squeeze().sum(-1), lambda x: x.squeeze(2).dim()]
)
def test_a_squeeze_that_makes_a_difference_is_refuted(function):
    report = check(model_of(function), (torch.ones(3, 4, 5),), dynamic_shapes=({2: Dim("w", min=1, max=9)},))
    assert (report.status, report.diagnostics[0].witness) == ("refuted", {"x.shape[2]": 1}), str(report)
