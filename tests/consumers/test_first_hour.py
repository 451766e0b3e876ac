"""A first hour: eight kinds of model, declared as people write it, repaired as the report says first, shipped.

Each is run beside eager at three sizes of its domain by every consumer, and refused outside of it where the format can.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_leaves

from shapeproof.export import OutsideDomain, Report, VerifiedProgram, check, export
from tests.consumers import ways
from tests.consumers.ways import WAYS
from tests.corners import Sizes, at_sizes, declared_dims

INSIDE: dict[str, list[Sizes]] = {
    "decoder": [
        {"batch": 2, "step": 3, "past": 5},
        {"batch": 1, "step": 1, "past": 0},
        {"batch": 8, "step": 28, "past": 100},
    ],
    "pyramid": [
        {"batch": 2, "height": 64, "width": 96},
        {"batch": 1, "height": 32, "width": 32},
        {"batch": 3, "height": 40, "width": 512},
    ],
    "speech": [{"batch": 2, "frames": 50}, {"batch": 1, "frames": 7}, {"batch": 3, "frames": 301}],
    "towers": [
        {"questions": 4, "length": 7, "answers": 4, "answer_length": 11},
        {"questions": 2, "length": 1, "answers": 2, "answer_length": 1},
        {"questions": 64, "length": 128, "answers": 64, "answer_length": 256},
    ],
    "detector": [{"height": 40, "width": 56}, {"height": 8, "width": 8}, {"height": 33, "width": 47}],
    "diffusion": [
        {"batch": 2, "height": 32, "width": 24},
        {"batch": 1, "height": 8, "width": 8},
        {"batch": 3, "height": 16, "width": 20},
    ],
    "tabular": [
        {"rows": 3, "entries": 7, "offsets": 3},
        {"rows": 1, "entries": 1, "offsets": 1},
        {"rows": 50, "entries": 300, "offsets": 50},
    ],
    "unet": [
        {"batch": 2, "height": 64, "width": 48},
        {"batch": 1, "height": 16, "width": 16},
        {"batch": 3, "height": 32, "width": 80},
    ],
}
OUTSIDE: dict[str, Sizes] = {
    "decoder": {"batch": 1, "step": 29, "past": 100},
    "pyramid": {"batch": 1, "height": 33, "width": 32},
    "speech": {"batch": 1, "frames": 6},
    "towers": {"questions": 3, "length": 2, "answers": 4, "answer_length": 2},
    "detector": {"height": 7, "width": 8},
    "diffusion": {"batch": 1, "height": 10, "width": 8},
    "tabular": {"rows": 3, "entries": 7, "offsets": 2},
    "unet": {"batch": 1, "height": 24, "width": 16},
}
HELP = {
    "decoder": 'constraints=["past + step <= 128"]',
    "pyramid": "width = 8*_width",
    "speech": 'frames = Dim("frames", min=7, max=3000)',
    "towers": "questions = answers",
    "diffusion": "height = 4*_height",
    "tabular": "rows = offsets",
    "unet": "height = 16*_height",
}
"""The first line of help that is no line of its own Dim; the detector needs none."""

REFUSING = ("module", "save and load", "unflatten", "decomposed", "torch.compile")
NO_KERNEL = {("tabular", "ExecuTorch"): "aten::_embedding_bag"}
"""What a consumer's own runtime lacks, whoever made the program."""
FAILING = {
    ("detector", "ONNX Runtime"): "torch.onnx writes a shape that ONNX Runtime does not expand",
    ("detector", "ExecuTorch"): "the runtime's squeeze_copy takes no operands of several dim orders",
    ("diffusion", "ONNX Runtime"): "torch.onnx takes attention in four dimensions alone",
    ("diffusion", "OpenVINO"): "torch.onnx takes attention in four dimensions alone",
    ("detector", "OpenVINO"): "torch.onnx writes a shape that OpenVINO does not expand",
    ("tabular", "OpenVINO"): "OpenVINO does not convert what torch.onnx writes for an embedding bag",
}
"""What fails for torch.export's program, too."""
QUICK = ("towers", "tabular")
"""The others are slow tests."""

Built = tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]


@functools.cache
def built(name: str) -> Built:
    torch.manual_seed(0)
    model, args, _, shapes = importlib.import_module(f"examples.first_hour.{name}").build()
    return model, args, shapes


@functools.cache
def first_report(name: str) -> Report:
    model, args, shapes = built(name)
    return check(model, args, dynamic_shapes=shapes)


@functools.cache
def shipped(name: str) -> VerifiedProgram:
    """The program, once what the report proposes is declared."""
    model, args, shapes = built(name)
    repair = first_report(name).repair()
    declared = shapes if repair is None else repair.dynamic_shapes
    program = export(model, args, dynamic_shapes=declared, constraints=() if repair is None else repair.constraints)
    assert isinstance(program, VerifiedProgram)
    assert program.report.status == "proved"
    return program


def made(name: str, sizes: Sizes) -> tuple[Any, ...]:
    """The inputs at other sizes; offsets begin with 0 and do not decrease."""
    _, args, shapes = built(name)
    torch.manual_seed(1)
    values = list(at_sizes(args, list(shapes.values()), sizes))
    if name == "tabular":
        values[2] = torch.arange(sizes["offsets"]) * sizes["entries"] // sizes["offsets"]
    return tuple(values)


def agree(name: str, run: Callable[..., Any], *, flat: bool) -> None:
    for sizes in INSIDE[name]:
        inputs = made(name, sizes)
        wanted = tree_leaves(built(name)[0](*inputs))
        got = tree_leaves(run(*(tree_leaves(inputs) if flat else inputs)))
        assert [each.shape for each in got] == [each.shape for each in wanted]
        for mine, eager in zip(got, wanted, strict=True):
            torch.testing.assert_close(mine, eager, rtol=1e-3, atol=1e-3, check_stride=False)


def models() -> list[Any]:
    return [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in INSIDE]


@pytest.mark.parametrize("name", models())
def test_the_report_says_what_people_would_write(name: str) -> None:
    report = first_report(name)
    if name == "detector":
        assert report.status == "proved"
        assert [failure.condition for failure in report.shared_failures]
        return
    assert report.status == "refuted"
    lines = [line for help_ in report.diagnostics[0].help for line in help_.text.splitlines()]
    assert HELP[name] in lines
    assert shipped(name).report.status == "proved"


@pytest.mark.parametrize("name", models())
def test_the_contract_accepts_and_refuses_what_the_program_does(name: str) -> None:
    report, run = shipped(name).report, shipped(name).module()
    assert all(report.accepts(*made(name, sizes)) for sizes in INSIDE[name])
    outside = made(name, OUTSIDE[name])
    assert not report.accepts(*outside)
    with pytest.raises(OutsideDomain):
        run(*outside)


def shipments() -> list[Any]:
    ways_taken = [way for way in WAYS if way not in ("torch.export again", "draft_export")]
    return [pytest.param(name, way, marks=marks(name, way)) for name in INSIDE for way in ways_taken]


def marks(name: str, way: str) -> list[Any]:
    slow = [] if name in QUICK else [pytest.mark.slow]
    reason = FAILING.get((name, way))
    return slow if reason is None else [*slow, pytest.mark.xfail(reason=reason, strict=True)]


@pytest.mark.parametrize(("name", "way"), shipments())
def test_is_shipped_and_runs_as_eager(name: str, way: str) -> None:
    flat = way in ("ONNX Runtime", "OpenVINO", "ExecuTorch")
    if (name, way) in NO_KERNEL:
        pytest.skip(f"its runtime has no {NO_KERNEL[name, way]}")
    run = WAYS[way](ways.copied(shipped(name)), built(name)[1], built(name)[2])
    agree(name, run, flat=flat)
    if way in REFUSING:
        with pytest.raises((RuntimeError, AssertionError)):
            run(*made(name, OUTSIDE[name]))


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "way"), NO_KERNEL)
def test_what_a_runtime_lacks_it_lacks_for_torchs_program_too(name: str, way: str) -> None:
    model, args, _ = built(name)
    repair = first_report(name).repair()
    assert repair is not None
    for program in (torch.export.export(model, args, dynamic_shapes=repair.dynamic_shapes), shipped(name)):
        with pytest.raises(RuntimeError, match="method forward"):
            WAYS[way](ways.copied(program), None, None)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "way"), FAILING)
def test_what_fails_fails_for_torchs_program_too(name: str, way: str) -> None:
    model, args, shapes = built(name)
    repair = first_report(name).repair()
    declared = shapes if repair is None else repair.dynamic_shapes
    program = torch.export.export(model, args, dynamic_shapes=declared)
    with pytest.raises(Exception):  # noqa: B017, PT011 - each consumer has its own
        agree(name, WAYS[way](program, None, None), flat=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", INSIDE)
def test_a_package_of_aotinductor_runs_as_eager_and_refuses(name: str, tmp_path: Path) -> None:
    run = ways.packaged(shipped(name), tmp_path)
    agree(name, run, flat=False)
    with pytest.raises(RuntimeError):
        run(*made(name, OUTSIDE[name]))


def test_the_sizes_name_every_declared_dim() -> None:
    for name, several in INSIDE.items():
        assert all(sizes.keys() == declared_dims(built(name)[2]).keys() for sizes in [*several, OUTSIDE[name]])
