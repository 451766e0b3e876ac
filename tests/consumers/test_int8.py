"""A model quantized by torchao is exported like any other."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.export import Dim

from shapeproof.export import check


@pytest.mark.thorough
@pytest.mark.parametrize("config", ["Int8WeightOnlyConfig", "Int8DynamicActivationInt8WeightConfig"])
def test_a_quantized_model_is_equal_to_its_program(config: str) -> None:
    quantization = pytest.importorskip("torchao.quantization")
    model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4)).eval()
    quantization.quantize_(model, getattr(quantization, config)())
    report = check(model, (torch.randn(5, 32),), dynamic_shapes=({0: Dim("rows", min=1, max=16)},))
    assert report.status == "proved"
    run = report.program.module()
    for rows in (1, 2, 16):
        x = torch.randn(rows, 32)
        assert torch.equal(run(x), model(x))
