"""Real models, tiny and random: proved over their whole domain, or refuted at sizes where eager shows why.

A program is run beside eager at every corner of the domain that is small enough to be run, sizes 1 included.
"""

from __future__ import annotations

import functools

import pytest
import torch
from torch.export import Dim

from benchmarks.models import EXAMPLES, TRANSFORMERS
from shapeproof.export import check
from tests.agreement import RAISES, agree, outcome
from tests.corners import at_sizes, corner_sizes, declared_dims

ELEMENTS = 2**22
"""Inputs larger than this are brought nearer to the small corner: attention takes the square of it."""

PROVED = ["bert", "clip_text", "gpt2", "llama", "t5_encoder"]


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


def affordable_corners(shapes):
    """The corners; where all sizes are large together, the largest are halved until the inputs fit."""
    dims = declared_dims(shapes)
    for sizes in corner_sizes(shapes):
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


def witnesses(report, shapes):
    """The sizes of each error's witness, by the names of the dims."""
    names = {f"{leaf}.shape[{i}]": dim.__name__ for leaf, dims in shapes.items() for i, dim in (dims or {}).items()}
    found = [diagnostic for diagnostic in report.diagnostics if diagnostic.severity == "error"]
    return [{names[size]: value for size, value in diagnostic.witness.items()} for diagnostic in found]


SLOW = ["convnet", "windowed_attention", *PROVED]
NAMES = [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in sorted({*EXAMPLES, *PROVED})]


@pytest.mark.parametrize("name", NAMES)
def test_a_model_is_proved_and_agrees_with_eager_at_every_corner(name):
    model, args, kwargs, shapes, report = checked(name)
    assert report.status == "proved", str(report)
    run = report.program.module()
    for sizes in affordable_corners(shapes):
        positional, named = at(args, kwargs, shapes, sizes)
        assert agree(model, run, positional, named), sizes


@pytest.mark.slow
def test_a_vit_that_interpolates_is_proved_also_where_it_skips_the_interpolation():
    """At the size of its table it leaves the identity out: other operators, the same numbers."""
    model, args, kwargs, shapes, report = checked("vit")
    assert report.status == "proved", str(report)
    run = report.program.module()
    skipping = [{"batch": 2, "height": height, "width": width} for height in (32, 39) for width in (32, 39)]
    for sizes in [{"batch": 2, "height": 48, "width": 48}, *skipping, *affordable_corners(shapes)]:
        assert agree(model, run, *at(args, kwargs, shapes, sizes)), sizes


@pytest.mark.slow
def test_a_vit_that_does_not_interpolate_is_refuted_where_the_image_has_another_size():
    model, _, _, shapes = built(TRANSFORMERS["vit"])
    kwargs, shapes = {"pixel_values": torch.randn(2, 3, 32, 32)}, {"pixel_values": shapes["pixel_values"]}
    report = check(model, (), kwargs, dynamic_shapes=shapes)
    assert report.status == "refuted", str(report)
    for sizes in witnesses(report, shapes):
        assert outcome(model, *at((), kwargs, shapes, sizes)) == RAISES, sizes


@pytest.mark.slow
def test_swin_is_refuted_for_a_handful_of_reasons_that_fit_on_a_screen():
    """Program C of the design: torch.export needs 402 guards and 18,000 characters to say it."""
    model, args, kwargs, shapes, report = checked("swin")
    assert report.status == "refuted", str(report)
    assert 1 <= len(report.diagnostics) <= 6
    lines = str(report).splitlines()
    declarations = sum("= declared" in line for line in lines)  # where they wrap depends on the path of this file
    assert len(lines) - 2 * declarations <= 50
    assert max(map(len, lines)) <= 100
    outcomes = [outcome(model, *at(args, kwargs, shapes, sizes)) for sizes in witnesses(report, shapes)]
    assert RAISES in outcomes


IMAGES = ["swin", "vit"]


def from_nothing(shapes, static=()):
    """The declarations with every batch from 0, every sequence to 512, and these dims as in the example."""
    dims = {"batch": Dim("batch", min=0, max=64), "sequence": Dim("sequence", min=1, max=512)}
    return {
        leaf: {i: dims.get(dim.__name__, dim) for i, dim in (declared or {}).items() if dim.__name__ not in static}
        or None
        for leaf, declared in shapes.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({*EXAMPLES, *PROVED, *IMAGES}))
def test_a_batch_of_none_is_proved_or_refuted_only_because_eager_raises(name):
    """`view(0, n, -1, 8)` is ambiguous to torch: attention of transformers raises there, and nowhere else."""
    model, args, kwargs, shapes = built((EXAMPLES | TRANSFORMERS)[name])
    shapes = from_nothing(shapes, static=("height", "width") if name in IMAGES else ())
    report = check(model, args, kwargs, dynamic_shapes=shapes)
    if report.status == "refuted":
        (sizes,) = witnesses(report, shapes)
        assert sizes["batch"] == 0
        assert outcome(model, *at(args, kwargs, shapes, sizes)) == RAISES
        help_ = report.repair()
        report = check(model, args, kwargs, dynamic_shapes=help_.dynamic_shapes, constraints=help_.constraints)
        shapes = help_.dynamic_shapes
        assert declared_dims(shapes)["batch"].min == 1
    assert report.status == "proved", str(report)
    run = report.program.module()
    lowest = {name: dim.min for name, dim in declared_dims(shapes).items()}
    for changes in ({}, {"batch": 1}, {"batch": 2}, {"sequence": 2}, {"batch": 3, "sequence": 7}):
        sizes = lowest | {name: size for name, size in changes.items() if name in lowest}
        assert agree(model, run, *at(args, kwargs, shapes, sizes)), sizes


@pytest.mark.slow
def test_no_images_of_any_size_are_refuted_only_because_eager_raises():
    model, args, kwargs, shapes = built(TRANSFORMERS["vit"])
    shapes = from_nothing(shapes)
    report = check(model, args, kwargs, dynamic_shapes=shapes)
    (sizes,) = witnesses(report, shapes)
    assert report.status == "refuted"
    assert sizes["batch"] == 0
    assert outcome(model, *at(args, kwargs, shapes, sizes)) == RAISES
    help_ = report.repair()
    again = check(model, args, kwargs, dynamic_shapes=help_.dynamic_shapes, constraints=help_.constraints)
    assert declared_dims(help_.dynamic_shapes)["batch"].min == 1
    assert again.status == "proved", str(again)
