"""Kinds of models that users ship: each does in the file what it does in eager, or is refused in one sentence."""

from __future__ import annotations

import functools

import pytest
import torch

from shapeproof.constraints.errors import UsageError
from shapeproof.export import export
from shapeproof.ship import FileDiffers, ship
from tests.ship.models import MODELS
from tests.ship.test_consumers import installed

REFUSED = {
    ("recommender", "executorch"): "its runtime has no aten::_embedding_bag.out",
    ("detector", "executorch"): "its runtime has no aten::sort.values",
}
"""What a consumer cannot take, with the end of the sentence."""
DIFFERS = {("decoder", "onnx"): "in the second call", ("joint", "executorch"): "raises at .* which is in the domain"}
"""What a consumer takes and computes otherwise.

ONNX Runtime keeps no state between calls; ExecuTorch's loop takes one batch size.
"""
COMPILED = ("forecaster", "vit", "bert", "speech")
"""Compiled by AOTInductor, too."""
QUICK = ("forecaster", "recommender")


@functools.cache
def built(name):
    torch.manual_seed(0)
    return MODELS[name]()


@functools.cache
def program(name):
    if name in ("bert", "decoder", "speech"):
        pytest.importorskip("transformers")
    model, args, kwargs, shapes = built(name)
    return export(model, args, kwargs, dynamic_shapes=shapes)


def cases(names, to):
    quick = QUICK if to == "onnx" else ()
    return [pytest.param(name, to, marks=[] if name in quick else [pytest.mark.slow]) for name in names]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "to"), [*cases(MODELS, "onnx"), *cases(MODELS, "executorch"), *cases(COMPILED, "aoti")]
)
def test_the_file_does_what_the_model_does_or_is_not_written(name, to, tmp_path):
    installed(to)
    path, end = tmp_path / "model", REFUSED.get((name, to)) or DIFFERS.get((name, to))
    if end is None:
        verdict = ship(program(name), path, to=to, model=built(name)[0])
        assert (verdict.status, verdict.compared >= 8, verdict.compared) == ("same", True, verdict.ran)
        assert path.exists()
        return
    with pytest.raises(FileDiffers if (name, to) in DIFFERS else UsageError, match=end) as caught:
        ship(program(name), path, to=to, model=built(name)[0])
    assert len(str(caught.value).splitlines()) == (3 if (name, to) in DIFFERS else 1)
    assert list(tmp_path.iterdir()) == []
