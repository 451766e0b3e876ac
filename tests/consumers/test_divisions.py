"""Divisions of negative sizes, in ONNX Runtime and ExecuTorch: what both make of them, and that programs have none."""

from __future__ import annotations

import functools
import math
from typing import Any

import pytest
import torch
from torch.export import Dim
from torch.nn import functional

from shapeproof.export import export
from tests.consumers import ways

RUNTIMES = {"ONNX Runtime": ways.onnx, "ExecuTorch": ways.executorch}


class Divided(torch.nn.Module):
    """A quotient and a remainder by 4, and by -3, of `n - 8`."""

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        n = x.shape[0] - 8
        return [torch.full((1,), each) for each in (n // 4, n % 4, n // -3, n % -3)]


def towards_zero(a: int, b: int) -> int:
    return int(a / b)


MADE = {
    "ONNX Runtime": lambda a, b: [towards_zero(a, b), a % b],
    "ExecuTorch": lambda a, b: [a // b, a - b * towards_zero(a, b)],
}
"""What a runtime makes of `a // b` and `a % b`: one of the two is Python's."""


@pytest.mark.thorough
@pytest.mark.parametrize("name", RUNTIMES)
def test_a_runtime_divides_a_negative_number_otherwise_than_python(name):
    """A canary: where a runtime comes to divide as Python, divisions.py is not needed for it any more."""
    program = torch.export.export(Divided(), (torch.zeros(5),), dynamic_shapes=({0: Dim("n", min=2, max=16)},))
    run = RUNTIMES[name](program)
    for n in range(2, 17):
        found = [int(each) for each in run(torch.zeros(n))]
        assert found == [*MADE[name](n - 8, 4), *MADE[name](n - 8, -3)]


@pytest.mark.thorough
def test_onnx_does_not_round_a_quotient_of_floats():
    class Floor(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * (torch.sym_float(x.shape[0]) * 0.5 // 1.0)

    program = export(Floor(), (torch.ones(5),), dynamic_shapes=({0: Dim("n", min=2, max=16)},))
    assert ways.onnx(program)(torch.ones(5))[0][0] == 2.5
    assert "is computed in floats" in program.report.notes[0]


class Sizes(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        t, n = x.shape[1], y.shape[0]
        numbers = [
            (t - 9) // 4 + (t - 20) % 7,
            (t - 9) // n + (t - 9) % n,
            t // -3 + t % -n,
            t // (2 * n - 5) + (t - 6) % (2 * n - 5),
            (-(-t // 4) - 3) // 2 % 5,
            math.ceil(t / 2) + math.floor((t - 9) / 2),
        ]
        return torch.zeros(-(-t // 8)) + x.sum(), *(torch.full((1,), each) for each in numbers)


class PadUnfold(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        t = x.shape[1]
        blocks = functional.pad(x, (-t % 8, 0)).unfold(1, 8, 8).reshape(-1, 8)
        return (blocks @ blocks.T).softmax(-1) @ blocks + y.sum()


DECLARED = ({1: Dim("t", min=1, max=26)}, {0: Dim("n", min=1, max=4)})


@functools.cache
def exported(model: type[torch.nn.Module]) -> Any:
    return export(model(), (torch.ones(2, 20), torch.ones(3)), dynamic_shapes=DECLARED)


@pytest.mark.thorough
@pytest.mark.parametrize("model", [Sizes, PadUnfold])
@pytest.mark.parametrize("name", RUNTIMES)
@pytest.mark.parametrize("loaded", [False, True], ids=["exported", "loaded"])
def test_a_runtime_gives_what_eager_gives_at_every_size(model, name, loaded):
    program = ways.copied(exported(model))
    run = RUNTIMES[name](ways.saved(program) if loaded else program)
    for t in range(1, 27):
        for n in range(1, 5):
            args = torch.randn(2, t), torch.ones(n)
            wanted = model()(*args)
            for mine, eager in zip(run(*args), wanted if isinstance(wanted, tuple) else [wanted], strict=True):
                torch.testing.assert_close(mine, eager.to(mine.dtype), rtol=1e-3, atol=1e-3)
