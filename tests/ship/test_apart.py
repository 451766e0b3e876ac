"""A file of native code runs in a process of its own, whose end is told as an error."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

from shapeproof.export import export
from shapeproof.ship.apart import Apart
from shapeproof.ship.targets import TARGETS
from tests.calling import Calls
from tests.ship.test_consumers import installed


@pytest.fixture
def made(tmp_path):
    installed("onnx")
    path = tmp_path / "doubled.onnx"
    program = export(Calls(lambda x: x * 2), (torch.ones(3, 4),), dynamic_shapes=({0: Dim("n", min=1, max=8)},))
    TARGETS["onnx"].convert(program, program.report.contract, path)
    return path


@pytest.mark.thorough
def test_the_process_computes_raises_and_is_started_again_after_its_end(made):
    apart, x = Apart("onnx", made), torch.arange(8.0).reshape(2, 4)
    assert torch.equal(apart(x)[0], x * 2)
    with pytest.raises(RuntimeError) as caught:
        apart(torch.ones(2, 5))
    assert type(caught.value).__name__ == "InvalidArgument"
    apart._process.kill()
    with pytest.raises(RuntimeError, match="ended by SIGKILL"):
        apart._answer([x])
    assert torch.equal(apart(x)[0], x * 2)


@pytest.mark.thorough
def test_a_file_that_cannot_be_loaded_is_told(made):
    content = made.read_bytes()
    made.write_bytes(content[:20] + bytes(20) + content[40:])
    with pytest.raises(RuntimeError):
        Apart("onnx", made)
