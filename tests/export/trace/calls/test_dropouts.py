"""Dropout that drops nothing returns its operand: a write into one is a write into the other, as in eager."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from shapeproof.export import Dim, check

SHAPES = ({0: Dim("n", min=0, max=8)},)
DROPOUTS = {
    "eval": lambda x: F.dropout(x, 0.5, training=False),
    "p is 0": lambda x: F.dropout(x, p=0.0),
    "torch": lambda x: torch.dropout(x, 0.5, False),
    "module": torch.nn.Dropout(0.5).eval(),
    "alpha": lambda x: F.alpha_dropout(x, 0.5, training=False),
    "feature": lambda x: F.feature_alpha_dropout(x, 0.5, training=False),
}


class Written(torch.nn.Module):
    """Writes into the result of a dropout, or into its operand."""

    def __init__(self, drop, *, operand=False):
        super().__init__()
        self.drop, self.operand = drop, operand

    def forward(self, x):
        x = x.clone()
        y = self.drop(x)
        (x if self.operand else y).add_(1)
        return x, y


@pytest.mark.parametrize("drop", DROPOUTS.values(), ids=DROPOUTS)
@pytest.mark.parametrize("operand", [False, True])
def test_a_write_into_what_dropout_returns_is_one_into_its_operand(drop, operand):
    mod = Written(drop, operand=operand)
    report = check(mod, (torch.ones(3, 2),), dynamic_shapes=SHAPES)
    assert report.status == "proved"
    for program in (report.program, report.program.run_decompositions()):
        for rows in (0, 1, 5):
            x = torch.ones(rows, 2)
            torch.testing.assert_close(program.module()(x), mod(x))


def test_dropout_that_nothing_writes_into_stays_in_the_graph():
    report = check(torch.nn.Dropout(0.5).eval(), (torch.ones(3, 2),), dynamic_shapes=SHAPES)
    assert [
        node.args[1:]
        for node in report.program.graph.find_nodes(op="call_function", target=torch.ops.aten.dropout.default)
    ] == [(0.5, False)]


@pytest.mark.thorough
def test_dropout_that_drops_all_is_a_copy():
    report = check(Written(lambda x: F.dropout(x, 1.0)), (torch.ones(3, 2),), dynamic_shapes=SHAPES)
    assert report.status == "proved"
    torch.testing.assert_close(report.program.module()(torch.ones(2, 2)), (torch.ones(2, 2), torch.ones(2, 2)))


class ByGradFn(torch.nn.Module):
    """Takes a branch by the name of what made a tensor."""

    def __init__(self, made, name):
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(2, 2))
        self.made, self.name = made, name

    def forward(self, x):
        y = self.made(x, self.w)
        return y.sin() if type(y.grad_fn).__name__ == self.name else y.cos()


@pytest.mark.parametrize(
    ("made", "name"),
    [
        (lambda x, w: (x @ w).relu(), "ReluBackward0"),
        (lambda x, w: (x @ w) @ w, "MmBackward0"),
        (lambda x, w: F.layer_norm(x @ w, (2,)), "NativeLayerNormBackward0"),
        (lambda x, w: F.dropout(x @ w, 0.5, training=False), "MmBackward0"),
        (lambda x, w: torch.cat([x @ w, x @ w]), "CatBackward0"),
    ],
    ids=["rule", "repeated", "whole", "dropout", "cat"],
)
def test_a_grad_fn_is_the_one_that_eager_has(made, name):
    mod = ByGradFn(made, name)
    assert type(made(torch.ones(1, 2), mod.w).grad_fn).__name__ == name
    report = check(mod, (torch.ones(3, 2),), dynamic_shapes=SHAPES)
    assert report.status == "proved"
    torch.testing.assert_close(report.program.module()(torch.ones(1, 2)), mod(torch.ones(1, 2)))


@pytest.mark.parametrize("drop", [F.dropout1d, F.dropout2d, F.dropout3d, torch.feature_dropout])
def test_a_write_into_a_view_that_dropout_returns_is_one_into_its_operand(drop):
    """`dropout1d` of two dims adds one, drops, and takes it away again: its result is a view of its operand."""
    mod = Written(lambda x: drop(x, 0.5, False))
    x = torch.ones(3, *[2] * {F.dropout2d: 2, F.dropout3d: 3}.get(drop, 1))
    report = check(mod, (x,), dynamic_shapes=SHAPES)
    assert report.status == "proved"
    torch.testing.assert_close(report.program.module()(x[:1]), mod(x[:1]))
