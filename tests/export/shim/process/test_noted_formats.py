"""The memory formats that torch notes with the nodes of a graph, and what it asks for them."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim
from torch.fx.passes import shape_prop

from shapeproof.export import check
from shapeproof.export.shim.process.each_call import formats_by_terms

IMAGE = {0: Dim("batch", min=1, max=9), 2: Dim("height", min=2, max=9), 3: Dim("width", min=2, max=9)}


def noted(layout, forward):
    """The formats of the operators' results in the graph of a model on images."""
    image = torch.randn(3, 4, 5, 7).contiguous(memory_format=layout)

    class Model(torch.nn.Module):
        def forward(self, x):
            return forward(x)

    report = check(Model(), (image,), dynamic_shapes=({**IMAGE},))
    assert report.status == "proved"
    nodes = (node for node in report.program.graph.nodes if node.op == "call_function")
    return [node.meta["tensor_meta"].memory_format for node in nodes if "tensor_meta" in node.meta]


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_the_format_of_symbolic_strides_is_noted(layout):
    assert noted(layout, torch.relu) == [layout]


def test_a_layout_that_is_no_format_is_noted_as_none():
    assert noted(torch.contiguous_format, lambda x: x.transpose(0, 3)) == [None]


def test_a_node_without_symbols_is_noted_as_torch_notes_it():
    image = torch.ones(2, 3, 4, 5)
    with formats_by_terms(lambda *_: False):
        assert shape_prop._extract_tensor_metadata(image).memory_format is torch.contiguous_format
        turned = image.contiguous(memory_format=torch.channels_last)
        assert shape_prop._extract_tensor_metadata(turned).memory_format is torch.channels_last
