"""The examples run in eager over the whole domain that they declare: a report about them is about shapeproof."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import torch

from tests.corners import at_sizes, corner_sizes

EXAMPLES = sorted(path.stem for path in (Path(__file__).parents[1] / "examples").glob("*.py"))


def build(name):
    torch.manual_seed(0)
    return importlib.import_module(f"examples.{name}").build()


def declared_shapes(name):
    return build(name)[3]


CASES = [(name, sizes) for name in EXAMPLES for sizes in corner_sizes(declared_shapes(name))]


def run(name, sizes):
    model, args, kwargs, shapes = build(name)
    inputs = dict(zip(shapes, args, strict=False)) | kwargs
    with torch.no_grad():
        return model(**at_sizes(inputs, shapes, sizes))


EXPECTED_SHAPES = {
    "transformer_encoder": lambda sizes: (sizes["batch"], 64),
    "convnet": lambda sizes: (sizes["batch"], 10),
    "windowed_attention": lambda sizes: (sizes["batch"], sizes["height"], sizes["width"], 16),
}


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "sizes"), CASES, ids=str)
def test_runs_at_the_corners(name, sizes):
    outputs = run(name, sizes)
    if name == "detection_head":
        boxes, scores = outputs
        assert boxes.shape == (len(scores), 4)
        assert len(scores) <= min(sizes["count"], 100)
        assert torch.equal(scores, scores.sort(descending=True).values)
    else:
        assert outputs.shape == EXPECTED_SHAPES[name](sizes)
        assert outputs.isfinite().all()


def test_every_example_says_what_it_is():
    for name in EXAMPLES:
        assert importlib.import_module(f"examples.{name}").__doc__


def test_detection_head_may_find_nothing():
    model, (features, anchors), _, _ = build("detection_head")
    with torch.no_grad():
        model.score.bias.fill_(-100.0)
        boxes, scores = model(features, anchors)
    assert boxes.shape == (0, 4)
    assert scores.shape == (0,)
