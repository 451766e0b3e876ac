"""A program in core operators has no minimum that is proved to be one of its operands; one of open order stays."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim
from torch.nn import functional

from shapeproof.export import export

EXTREMES = {torch.sym_min, torch.sym_max}


class Attention(torch.nn.Module):
    def forward(self, query, keys):
        keys = torch.cat([keys, query], 2)
        seen = torch.arange(keys.shape[2])[None, :] <= torch.arange(query.shape[2])[:, None]
        return functional.scaled_dot_product_attention(query, keys, keys, attn_mask=seen)


class Clamped(torch.nn.Module):
    def __init__(self, most):
        super().__init__()
        self.most = most

    def forward(self, x):
        rows = torch.sym_min(x.shape[0], self.most)
        return torch.arange(rows) + torch.sym_max(rows, 1)


def extremes(program):
    return [node.target for node in program.graph.nodes if node.target in EXTREMES]


def attention():
    batch, step, past = Dim("batch", min=1, max=8), Dim("step", min=1, max=16), Dim("past", min=0, max=16)
    return export(
        Attention(),
        (torch.randn(2, 2, 3, 4), torch.randn(2, 2, 5, 4)),
        dynamic_shapes=({0: batch, 2: step}, {0: batch, 2: past}),
        constraints=("past + step <= 16",),
    )


@pytest.mark.thorough
def test_a_bound_that_is_enforced_leaves_no_minimum():
    program = attention()
    core = program.run_decompositions()
    assert not extremes(core)
    for step, past in ((3, 5), (1, 0), (4, 12)):
        args = torch.randn(1, 2, step, 4), torch.randn(1, 2, past, 4)
        torch.testing.assert_close(core.module()(*args), Attention()(*args))


@pytest.mark.parametrize(("most", "left"), [(9, []), (4, [torch.sym_min])])
def test_a_minimum_stays_where_its_order_is_open(most, left):
    model = Clamped(most)
    program = export(model, (torch.ones(3),), dynamic_shapes=({0: Dim("n", min=1, max=9)},))
    core = program.run_decompositions()
    assert extremes(core) == left
    for rows in range(1, 10):
        torch.testing.assert_close(core.module()(torch.ones(rows)), model(torch.ones(rows)))
