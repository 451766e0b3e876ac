"""Writing the clamps of a program twice changes nothing, in its bodies neither (export/build/program.py)."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

from shapeproof.export import export

SLICES = {
    "end": lambda x: x[:12],
    "both": lambda x: x[2:-2],
    "of a size": lambda x: x[x.shape[0] // 2 : 12],
    "in bodies": lambda x: torch.cond(x.sum() > 0, lambda x: x[-5:-2].sum(), lambda x: x[3:9].sum(), (x,)),
}


@pytest.mark.parametrize("name", SLICES)
def test_a_second_validation_changes_no_graph(name):
    mod = type("Model", (torch.nn.Module,), {"forward": staticmethod(SLICES[name])})()
    program = export(mod, (torch.randn(20),), dynamic_shapes=({0: Dim("n", min=0, max=40)},))
    for each in (program, program.run_decompositions()):
        each.validate()
        before = [str(module.graph) for module in each.graph_module.modules()]
        each.validate()
        assert [str(module.graph) for module in each.graph_module.modules()] == before
