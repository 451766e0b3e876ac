"""Operators that only change the elements of their one operand are not run while a model is traced."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.export import Dim

from shapeproof.export import check
from shapeproof.export.declare.inputs import declare
from shapeproof.export.ops import schemas
from shapeproof.export.ops.table import is_unary
from shapeproof.export.verify import verified
from tests.agreement import agree

IN_PLACE = sorted(
    name
    for name in dir(torch.ops.aten)
    if is_unary(func := getattr(getattr(torch.ops.aten, name), "default", None)) and schemas.only_writes(func)
)


@pytest.mark.quick
@pytest.mark.parametrize("name", IN_PLACE)
def test_what_treats_elements_one_by_one_in_place_returns_its_operand_as_it_lay(name):
    """A canary: it raises nothing, for no size of floats that lie row by row."""
    func = getattr(torch.ops.aten, name).default
    for size in [(2, 3, 4, 5), (0, 3, 4, 5), (1, 3, 1, 1), (2, 1, 4, 5), (4,), ()]:
        for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
            x = (torch.rand(size) + 0.5).to(dtype)
            before = x.stride(), x.storage_offset(), x.data_ptr()
            assert func(x) is x
            assert (x.shape, x.dtype, (x.stride(), x.storage_offset(), x.data_ptr())) == (size, dtype, before)


@pytest.mark.parametrize("name", ["relu_", "hardswish_", "sigmoid_", "tanh_"])
@pytest.mark.parametrize("grad", [False, True])
def test_an_operator_in_place_asks_for_no_trace(name, grad):
    """The operand is read afterwards: the graph writes into it, through a view, too."""
    assert name in IN_PLACE

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(3, 3)

        def forward(self, x):
            y = self.layer(x)
            half = y[:, 1:]
            getattr(torch.ops.aten, name)(y)
            return y * 2, half + 1, getattr(torch.ops.aten, name)(x.t())

    mod = Model().eval()
    example, shapes = (torch.randn(4, 3),), ({0: Dim("n", min=0, max=9)},)
    with torch.set_grad_enabled(grad):
        report = check(mod, example, dynamic_shapes=shapes)
        slow = verified(mod, declare(mod, example, None, shapes), in_place=False)
    assert (report.status, report.statistics["traces"]) == ("proved", 1), str(report)
    assert slow.status == "proved"
    for n in (0, 1, 2, 5):
        x = torch.randn(n, 3)
        assert agree(mod, report.program.module(), (x,))


@pytest.mark.parametrize("in_place", [True, False])
def test_a_constant_that_is_written_into_a_mask_costs_no_trace(in_place):
    """`index_put_` asks which sizes are 1, and was not settled where it reads a constant: only the mask is changed."""

    def marked(x, last):
        mask = torch.zeros(x.shape)
        mask[torch.arange(x.shape[0]), last] = 1
        return mask.masked_fill_(x > 0, torch.tensor(-1.0))

    mod = type("Model", (torch.nn.Module,), {"forward": lambda _, x, last: marked(x, last)})()
    b, n = Dim("b", min=0, max=4), Dim("n", min=1, max=4)
    example = torch.randn(3, 4), torch.zeros(3, dtype=torch.int64)
    report = verified(mod, declare(mod, example, None, ({0: b, 1: n}, {0: b})), in_place=in_place)
    assert report.status == "proved"
    assert (report.statistics["traces"] == 1) is in_place
    for rows, columns in itertools.product(range(5), range(1, 5)):
        given = torch.randn(rows, columns), torch.randint(columns, (rows,))
        assert agree(mod, report.program.module(), given)


def test_a_constant_that_is_changed_is_not_changed_twice():
    def forward(_, x):
        kept = torch.tensor([1.0, 2.0, 3.0])
        kept[: x.shape[0]] += x
        return kept.cumsum(0)

    mod = type("Model", (torch.nn.Module,), {"forward": forward})()
    report = check(mod, (torch.randn(2),), dynamic_shapes=({0: Dim("n", min=0, max=3)},))
    assert report.status == "proved"
    for n in range(4):
        assert agree(mod, report.program.module(), (torch.randn(n),))
