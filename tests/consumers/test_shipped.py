"""Law: each consumer takes a program, and runs it as eager does at every size: tried at three of each model's domain.

What each does outside of the domain is in test_table.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_leaves

from shapeproof.export import Dim, VerifiedProgram, export
from tests.consumers import ways
from tests.consumers.models import MODELS, Shipped
from tests.consumers.ways import WAYS

NO_DYNAMIC_ONES = {
    (model, way)
    for model in ("pairs", "patches", "first columns", "last rows", "ctc", "halved", "pyramid")
    for way in ("torch.export again", "draft_export")
}
"""Not exported again where a size may be 1. Torch's own rule about 1 was taken for the cause; that was not checked."""

QUICK = ("pairs", "first columns", "gated")
"""The others are slow tests."""


def exported(name: str) -> tuple[Shipped, torch.nn.Module, VerifiedProgram]:
    """A program of its own.

    ExecuTorch and ONNX leave unbacked symbols pending in the ShapeEnv, which copies share, and AOTInductor then
    refuses the program; torch.export's programs have this too.
    """
    case = MODELS[name]
    model = case.build()
    return case, model, export(model, case.example, dynamic_shapes=case.declared)


@functools.cache
def shipped(name: str) -> tuple[Shipped, torch.nn.Module, VerifiedProgram]:
    return exported(name)


def agree(run: Callable[..., Any], model: torch.nn.Module, inputs: Any, tolerance: float = 1e-3) -> None:
    got, wanted = tree_leaves(run(*inputs)), tree_leaves(model(*inputs))
    assert [each.shape for each in got] == [each.shape for each in wanted]
    for mine, eager in zip(got, wanted, strict=True):
        torch.testing.assert_close(mine, eager, rtol=tolerance, atol=tolerance, check_stride=False)


def cases() -> list[Any]:
    return [
        pytest.param(name, way, marks=[] if name in QUICK else [pytest.mark.slow])
        for name in MODELS
        for way in WAYS
        if (name, way) not in NO_DYNAMIC_ONES
    ]


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "way"), cases())
def test_runs_as_eager_at_every_size(name: str, way: str) -> None:
    case, model, program = shipped(name)
    run = WAYS[way](ways.copied(program), case.example, case.declared)
    for sizes in case.sizes:
        agree(run, model, case.made(*sizes))


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_package_of_aotinductor_runs_as_eager_at_every_size(name: str, tmp_path: Path) -> None:
    case, model, program = exported(name)
    run = ways.packaged(program, tmp_path)
    for sizes in case.sizes:
        agree(run, model, case.made(*sizes))
    if case.outside is not None:
        with pytest.raises(RuntimeError):
            run(*case.made(*case.outside))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ctc", "gated", "attention", "pyramid"])
def test_a_quantized_program_runs_at_every_size(name: str) -> None:
    case, model, program = shipped(name)
    run = ways.quantized(program, case.example)
    for sizes in case.sizes:
        agree(run, model, case.made(*sizes), tolerance=0.3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.xfail(reason="XNNPACK reshapes one dynamic dimension", strict=True)])
        if name == "ctc"
        else name
        for name in MODELS
    ],
)
def test_a_program_for_xnnpack_runs_as_eager_at_every_size(name: str) -> None:
    case, model, program = shipped(name)
    run = ways.xnnpack(program)
    for sizes in case.sizes:
        agree(run, model, case.made(*sizes))


class _ShortestOf(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        shortest, longest = torch.sym_min(x.shape[0], y.shape[0]), torch.sym_max(x.shape[0], y.shape[0])
        return torch.arange(shortest).sum() + torch.arange(longest)


@pytest.mark.slow
def test_executorch_runs_a_minimum_and_a_maximum_whose_order_is_open() -> None:
    """Law: they are written in operators that ExecuTorch's verifier admits; it refuses torch.export's `sym_min`."""
    model, dims = _ShortestOf(), [Dim(name, min=1, max=9) for name in ("n", "m")]
    program = export(model, (torch.ones(3), torch.ones(5)), dynamic_shapes=[{0: dim} for dim in dims])
    run = ways.executorch(program)
    for sizes in ((1, 9), (5, 5), (9, 2)):
        agree(run, model, [torch.ones(size) for size in sizes])
