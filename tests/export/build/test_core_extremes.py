"""A program in core operators has no minimum of two sizes: an operand or arithmetic replaces it."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.export import Dim
from torch.nn import functional

from shapeproof.export import export
from shapeproof.solver.prove import prove

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


@pytest.mark.parametrize("most", [9, 4])
def test_an_extreme_of_sizes_is_an_operand_or_arithmetic(most):
    model = Clamped(most)
    program = export(model, (torch.ones(3),), dynamic_shapes=({0: Dim("n", min=1, max=9)},))
    core = program.run_decompositions()
    assert not extremes(core)
    for rows in range(1, 10):
        torch.testing.assert_close(core.module()(torch.ones(rows)), model(torch.ones(rows)))


class Shifted(torch.nn.Module):
    def forward(self, x):
        return x + torch.sym_min(3 - x.shape[0], -4)


@pytest.mark.parametrize(("most", "left"), [(9, []), (None, [torch.sym_min])])
def test_a_minimum_stays_where_an_operand_has_no_lower_bound(most, left):
    program = export(Shifted(), (torch.ones(5),), dynamic_shapes=({0: Dim("n", min=1, max=most)},))
    core = program.run_decompositions()
    assert extremes(core) == left
    for rows in range(1, 10):
        torch.testing.assert_close(core.module()(torch.ones(rows)), Shifted()(torch.ones(rows)))


def test_the_arithmetic_of_an_extreme_is_right():
    """Law: with t = (2*a + 2*k + 1)//(a + b + 2*k + 1) and a, b >= -k, min is a - t*(a - b), max b + t*(a - b)."""
    t, within = "((2*a + 1)//(a + b + 1))", {"a": (0, None), "b": (0, None)}  # where k is 0: else a + k is a here
    for order, value in (("a >= b", 1), ("a < b", 0)):
        assert prove(f"{t} == {value}", within, given=[order]).status == "proved"
    for k in (0, 1, 7):
        for a, b in itertools.product(range(-k, 40), repeat=2):
            once = (2 * a + 2 * k + 1) // (a + b + 2 * k + 1)
            assert (a - once * (a - b), b + once * (a - b)) == (min(a, b), max(a, b))


def test_a_minimum_that_is_a_result_keeps_its_name():
    class Gives(Clamped):
        def forward(self, x):
            rows = torch.sym_min(x.shape[0], self.most)
            return x + rows, rows

    program = export(Gives(9), (torch.ones(3),), dynamic_shapes=({0: Dim("n", min=1, max=9)},))
    core = program.run_decompositions().module()
    assert [core(torch.ones(rows))[1] for rows in (1, 9)] == [1, 9]


class OfBoth(torch.nn.Module):
    def forward(self, x, y):
        return x[: torch.sym_min(x.shape[0], y.shape[0])] + y


def test_an_assertion_is_not_rewritten_by_the_fact_that_it_enforces():
    """Law: outside the domain the core program refuses, also where a relation is written by a minimum."""
    n, m = Dim("n", min=1, max=9), Dim("m", min=1, max=9)
    program = export(
        OfBoth(),
        (torch.ones(5), torch.ones(3)),
        dynamic_shapes=({0: n}, {0: m}),
        constraints=("min(n, m) == m", "max(n, 4) == n"),
    )
    core = program.run_decompositions().module()
    for left in range(1, 10):
        for right in range(1, 10):
            args = torch.ones(left), torch.ones(right)
            if left >= max(right, 4):
                torch.testing.assert_close(core(*args), OfBoth()(*args))
            else:
                with pytest.raises(RuntimeError):
                    core(*args)
