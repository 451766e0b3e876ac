"""Real models, tiny and random: proved over their whole domain, or refuted at sizes where eager shows why.

A program is run beside eager at every corner of the domain that is small enough to be run, sizes 1 included.
"""

from __future__ import annotations

import functools

import pytest
import torch

from benchmarks.models import EXAMPLES, TRANSFORMERS
from shapeproof.export import check
from tests.agreement import RAISES, agree, outcome
from tests.corners import at_sizes, corner_sizes, declared_dims

ELEMENTS = 2**22
"""Inputs larger than this are brought nearer to the small corner: attention takes the square of it."""

PROVED = ["bert", "clip_text", "gpt2", "llama", "t5_encoder", "vit"]


def built(build):
    torch.manual_seed(0)
    return build()


@functools.cache
def checked(name):
    """The model, its inputs and the report; an export takes seconds, so each is made once."""
    model, args, kwargs, shapes = built((EXAMPLES | TRANSFORMERS)[name])
    return model, args, kwargs, shapes, check(model, args, kwargs, dynamic_shapes=shapes)


def at(args, kwargs, shapes, sizes):
    """Positional and keyword inputs at these sizes."""
    positional = dict(zip(shapes, args, strict=False))
    values = at_sizes(positional | kwargs, shapes, sizes)
    return tuple(values[name] for name in positional), {name: values[name] for name in kwargs}


def affordable_corners(args, kwargs, shapes):
    """The corners; where all sizes are large together, all but the first are halved until the inputs fit."""
    for sizes in corner_sizes(shapes):
        dims = declared_dims(shapes)
        while _cost(sizes) > ELEMENTS:
            name = max(sizes, key=lambda n: sizes[n] / dims[n].min)
            sizes[name] = max(dims[name].min, sizes[name] // 2)
        yield sizes


def _cost(sizes):
    first, *rest = sizes.values()
    total = first
    for size in rest:
        total *= size * (size if len(rest) == 1 else 1)
    return total


def sizes_of(report, dims_by_size):
    """The witness of the first diagnostic by the names of the dims."""
    return {dims_by_size[size]: value for size, value in report.diagnostics[0].witness.items()}


@pytest.mark.parametrize("name", [*sorted(EXAMPLES), *(pytest.param(n, marks=pytest.mark.slow) for n in PROVED)])
def test_a_model_is_proved_and_agrees_with_eager_at_every_corner(name):
    model, args, kwargs, shapes, report = checked(name)
    assert report.status == "proved", str(report)
    run = report.program.module()
    for sizes in affordable_corners(args, kwargs, shapes):
        positional, named = at(args, kwargs, shapes, sizes)
        assert agree(model, run, positional, named), sizes


@pytest.mark.slow
def test_a_vit_that_does_not_interpolate_is_refuted_where_the_image_has_another_size():
    model, args, kwargs, shapes = built(TRANSFORMERS["vit"])
    kwargs, shapes = {"pixel_values": torch.randn(2, 3, 32, 32)}, {"pixel_values": shapes["pixel_values"]}
    report = check(model, args, kwargs, dynamic_shapes=shapes)
    assert report.status == "refuted"
    names = {f"pixel_values.shape[{i}]": dim.__name__ for i, dim in shapes["pixel_values"].items()}
    for diagnostic in report.diagnostics:
        sizes = {names[size]: value for size, value in diagnostic.witness.items()}
        _, inputs = at(args, kwargs, shapes, sizes)
        assert outcome(model, (), inputs) == RAISES, sizes


@pytest.mark.slow
def test_swin_is_refuted_for_a_handful_of_reasons_that_fit_on_a_screen():
    """Program C of the design: torch.export needs 402 guards and 18,000 characters to say it."""
    model, args, kwargs, shapes, report = checked("swin")
    assert report.status == "refuted"
    assert 1 <= len(report.diagnostics) <= 6
    lines = str(report).splitlines()
    assert len(lines) <= 60
    assert max(map(len, lines)) <= 100
    names = {f"pixel_values.shape[{i}]": dim.__name__ for i, dim in shapes["pixel_values"].items()}
    for diagnostic in report.diagnostics:
        sizes = {names[size]: value for size, value in diagnostic.witness.items()}
        assert outcome(model, *at(args, kwargs, shapes, sizes)) == RAISES, sizes
