"""docs/how-to/ship-to-consumers.md has a table of what consumers refuse: each row is what they do."""

from __future__ import annotations

import builtins
import functools
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

from shapeproof.export import OutsideDomain, VerifiedProgram, export
from tests.consumers import ways
from tests.consumers.models import data

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "ship-to-consumers.md"
HEADER = "| Consumer | above the range | below the range | no multiple | another relation | another constant size | "
WAY = {
    "`module()`": "module",
    "`torch.export.save` and `load`": "save and load",
    "`unflatten`": "unflatten",
    "`run_decompositions`": "decomposed",
    "`run_decompositions`, saved and loaded": "decomposed and saved",
    "`copy.deepcopy`": "deepcopy",
    "`pickle`": "pickle",
    "`torch.compile` of `module()`": "torch.compile",
    "`torch.export.export` of `module()`": "torch.export again",
    "`torch.export.draft_export` of `module()`": "draft_export",
    "ONNX Runtime": "ONNX Runtime",
    "OpenVINO": "OpenVINO",
    "ExecuTorch": "ExecuTorch",
}
SLOW = ("torchao's pt2e quantization", "AOTInductor", "ExecuTorch with XNNPACK")


class Related(nn.Module):
    """Eager takes any sizes, so that nothing is refused but by what was declared."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.sum(1, keepdim=True) + y.sum()


def rows() -> list[Any]:
    """The consumer of each row, and what its cells say."""
    lines = PAGE.read_text(encoding="utf-8").split(HEADER)[1].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    named = [(re.sub(r" \(\d\)$", "", name), said) for name, *said in cells]
    return [pytest.param(*each, id=each[0], marks=[pytest.mark.slow] if each[0] in SLOW else []) for each in named]


def inside(rows_of_x: int, rows_of_y: int, columns: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    return data(rows_of_x, columns), data(rows_of_y, columns)


D = Dim("d", min=2, max=4)
DECLARED = ({0: 2 * D}, {0: 2 * D})
LEFT_OUT = (
    inside(10, 10),
    inside(2, 2),
    inside(5, 5),
    inside(4, 6),
    inside(4, 4, columns=3),
    tuple(each.double() for each in inside(4, 4)),
)


@functools.cache
def program() -> VerifiedProgram:
    return export(Related(), inside(6, 6), dynamic_shapes=DECLARED)


def run_of(consumer: str, folder: Path) -> ways.Run:
    taken = ways.copied(program())
    match consumer:
        case "torchao's pt2e quantization":
            return ways.quantized(taken, inside(6, 6))
        case "AOTInductor":
            return ways.packaged(taken, folder)
        case "ExecuTorch with XNNPACK":
            return ways.xnnpack(taken)
        case _:
            return ways.WAYS[WAY[consumer]](taken, inside(6, 6), DECLARED)


def named(exception: str) -> type[Exception]:
    if exception == "InvalidArgument":
        from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

        return InvalidArgument  # type: ignore[no-any-return]
    return OutsideDomain if exception == "OutsideDomain" else getattr(builtins, exception)  # type: ignore[no-any-return]


@pytest.mark.parametrize(("consumer", "said"), rows())
def test_a_consumer_refuses_what_the_page_says(consumer: str, said: list[str], tmp_path: Path) -> None:
    run = run_of(consumer, tmp_path)
    for sizes in (4, 6, 8):
        run(*inside(sizes, sizes))
    for inputs, cell in zip(LEFT_OUT, said, strict=True):
        if cell == "computes":
            run(*inputs)
        else:
            with pytest.raises(named(cell)):
                run(*inputs)


def test_every_consumer_has_a_row() -> None:
    assert [each.id for each in rows()] == sorted([*WAY, *SLOW], key=[each.id for each in rows()].index)
