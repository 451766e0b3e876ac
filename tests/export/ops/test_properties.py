"""What a model reads of how its inputs lie, or of their gradients, is held: of a view and of a result, too."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

from shapeproof.export import OutsideDomain, export
from shapeproof.export.ops.decompositions import REWRITTEN
from shapeproof.export.ops.properties import METADATA, acts_on_layout, properties_read
from shapeproof.export.trace.calls.fakes import refuse_hidden
from tests.agreement import agree

BOTH = {0: Dim("n", min=1, max=8), 1: Dim("m", min=1, max=8)}


class OffsetOfARow(torch.nn.Module):
    """Where the second row begins follows from the strides of x."""

    def forward(self, x):
        return x + x[1:].storage_offset()


class GradientOfAResult(torch.nn.Module):
    def forward(self, x):
        return x * 2 if (x * 3).grad_fn is not None else x


OUTSIDE = [
    (OffsetOfARow, torch.ones(4, 3).t()),
    (OffsetOfARow, torch.ones(4)[None].expand(3, 4)),
    (OffsetOfARow, torch.ones(6, 4)[2:]),
    (GradientOfAResult, torch.ones(3, 4, requires_grad=True)),
]


@pytest.mark.parametrize("model", [OffsetOfARow, GradientOfAResult])
def test_what_was_read_is_held(model):
    run = export(model(), (torch.ones(3, 4),), dynamic_shapes=(BOTH,)).module()
    for inside in (torch.randn(5, 6), torch.randn(1, 6), torch.randn(5, 1)):
        assert agree(model(), run, (inside,))
    for outside in (x for kind, x in OUTSIDE if kind is model):
        with pytest.raises(OutsideDomain):
            run(outside)


def test_metadata_that_passes_unobserved_is_nothing_that_a_trace_must_note():
    """None acts on a layout, is rewritten, or gives a value that a fake tensor makes up."""
    assert len(METADATA) == 14
    for func in METADATA:
        assert not properties_read(func)
        assert not acts_on_layout(func, (torch.ones(2),), {})
        assert func not in REWRITTEN
        refuse_hidden(func)


class LeafOfAResult(torch.nn.Module):
    def forward(self, x):
        return x * (2 if (x + 1).is_leaf else 3)


def test_an_input_with_gradients_is_refused_where_the_model_asks_for_a_leaf():
    """The fault: a result is a leaf where no operand has a gradient, and the program took that of the example."""
    program = export(LeafOfAResult(), (torch.ones(3, 4),), dynamic_shapes=({0: Dim("n", min=1, max=5)},))
    with pytest.raises(OutsideDomain, match="requires_grad"):
        program.module()(torch.ones(2, 4, requires_grad=True))
