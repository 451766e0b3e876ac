"""The memory formats that torch notes with the nodes of a graph, and what it asks for them."""

from __future__ import annotations

import pytest
import torch
from torch._export import non_strict_utils
from torch._export.non_strict_utils import _override_builtin_ops
from torch.export import Dim
from torch.fx.passes import shape_prop

from shapeproof.export import check
from shapeproof.export.shim.process.idle_work import plain_numbers_compared
from shapeproof.export.shim.process.unrun import formats_by_terms
from shapeproof.export.shim.replaced import replaced

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


def test_torch_replaces_min_and_max_for_every_caller():
    """The canary of plain_numbers_compared."""
    pairs = []
    torchs = non_strict_utils._tensor_min_max

    def counted(*args, **how):
        pairs.append(args)
        return torchs(*args, **how)

    with replaced(non_strict_utils, _tensor_min_max=counted), _override_builtin_ops():
        assert min((3, 1, 2)) == 1
    assert len(pairs) == 3  # the tuple, and each further element


def test_plain_numbers_are_compared_by_python_and_tensors_by_torch():
    with plain_numbers_compared(), _override_builtin_ops():
        assert (min(3, 1), max([2, 5, 4]), min(1.5, 2), max(7, 2, 9)) == (1, 5, 1.5, 9)
        assert max("ab", key=ord) == "b"
        assert min((), default=4) == 4
        assert torch.equal(max(torch.tensor([1, 5]), torch.tensor([4, 2])), torch.tensor([4, 5]))
        with pytest.raises(ValueError, match="empty"):
            max([])
