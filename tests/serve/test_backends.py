"""What runs the programs of a served model: it is given each, and called inside its domain alone."""

from __future__ import annotations

import sys

import pytest
import torch

from shapeproof.constraints.errors import UsageError
from shapeproof.serve import compile as served


class Sine(torch.nn.Module):
    def forward(self, x):
        return x.sin()


def test_a_library_that_is_missing_is_named(monkeypatch):
    pytest.importorskip("onnx", reason="it would be named first")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(
        UsageError, match=r"backend='onnxruntime' needs onnxruntime: pip install shapeproof\[consumers\]"
    ):
        served(Sine(), backend="onnxruntime")


def test_a_backend_is_given_each_program_and_is_called_inside_its_domain_alone():
    given = []

    def backend(program):
        module = program.module()
        given.append(program)
        return lambda x: module(x) + 100

    run = served(Sine(), backend=backend)
    assert torch.equal(run(torch.zeros(3)), torch.full((3,), 100.0))
    assert [type(each).__name__ for each in given] == ["VerifiedProgram"]


@pytest.mark.thorough
def test_onnxruntime_runs_programs_without_gradients_and_leaves_the_others_to_the_model():
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU()).eval()
    run = served(model, backend="onnxruntime")
    x = torch.randn(4, 3)
    assert run(x).requires_grad
    assert "no gradients" in str(run.misses[0])
    with torch.no_grad():
        for rows in (4, 5, 6):
            torch.testing.assert_close(run(x := torch.randn(rows, 3)), model(x))
    assert run.traced == 2
