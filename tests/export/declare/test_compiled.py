"""Models that torch.compile has wrapped: the program is that of the model itself."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

from shapeproof.constraints.errors import UsageError
from shapeproof.export import check, export

SHAPES = {"x": {0: Dim("n", min=1, max=8)}}
ARGS = (torch.ones(3, 4),)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x) * x.shape[0]


def test_the_program_is_that_of_the_model_inside():
    """The fault: `dynamic_shapes names ['x'], but the inputs are ['args']`."""
    mod = Model()
    program = export(torch.compile(mod), ARGS, dynamic_shapes=SHAPES)
    assert program.report.status == "proved"
    assert set(program.state_dict) == set(mod.state_dict())
    assert torch.equal(program.module()(torch.ones(5, 4)), mod(torch.ones(5, 4)))


def test_a_hook_of_the_wrapper_is_not_dropped():
    wrapped = torch.compile(Model())
    wrapped.register_forward_hook(lambda *given: given[-1] + 1)
    with pytest.raises(UsageError, match="the inputs are"):
        check(wrapped, ARGS, dynamic_shapes=SHAPES)
