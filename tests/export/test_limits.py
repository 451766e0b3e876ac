"""Each limit of an export has a model that needs it: where the limit is lower, the report says something else."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from torch.export import Dim

from shapeproof.export import check, limits
from tests.calling import Calls

ELSEWHERE = {
    "THREADS_WORK": "shim/process/test_idle_work.py",
    "NODE_ELEMENTS": "explore/beside_eager/test_replayed_points.py",
    "REPLAY_GROWTH": "explore/beside_eager/test_replayed_points.py",
    "CORNER_WORK": "explore/beside_eager/test_corner_work.py",
}
"""The limits that the tests of a room need."""
LIBRARY = torch.library.Library("shapeproof_limits", "DEF")
LIBRARY.define("odd(Tensor x) -> Tensor")
LIBRARY.impl("odd", lambda x: x[: x.shape[0] - (x.shape[0] == 7)].clone(), "CPU")
LIBRARY.impl("odd", torch.empty_like, "Meta")


def odd(x):
    return torch.ops.shapeproof_limits.odd(x)


def size(name, least, most):
    return Dim(name, min=least, max=most)


def branched(x):
    return x * 100 if x.shape[0] == 1 else x + 1


def repeated(x):
    return x[:, None].expand(x.shape[0], 2, 3).reshape(x.shape[0], 6)


def masked(x, lengths):
    longest = int(lengths.max())
    return torch.where(torch.arange(longest)[None] >= lengths[:, None], 0.0, x[:, :longest])


def masking_nothing(x, mask):
    if not torch.compiler.is_compiling() and bool(mask.all()):
        return x * 2
    return torch.where(mask[torch.arange(x.shape[0])], x * 2, x)


def divided(x):
    a, b = x.shape
    if min(2, b) != b // (b - 2):
        x = x * a
    if not (min(b, 2 + b) == b // (b - 2)):  # noqa: SIM201 - as the random program asks that has shown it
        x = x * a
    return torch.cat([x, x])


def raising(x):
    if x.shape[1] < 60 and x.shape[0] == 2:
        raise ValueError
    return x * 2


def asking_again(x):
    total = int(x.sum())
    for _ in range(5):
        x = x + 1 if total > 5 else x
    return x


def held():
    def half(x):
        return x * int(x.shape[0] / 2)

    steps = [half]

    def first(x):
        return steps[0](x)

    return first


N, SQUARE = size("n", 1, 8), torch.ones(3, 3)
BOX = {0: size("n", 1, 9), 1: size("m", 1, 100)}
ROWS = size("r", 1, 3)
MODELS = {
    "TRACE_LIMIT": (1, branched, (SQUARE,), ({0: N},)),
    "RUNS": (0, repeated, (SQUARE,), ({0: N},)),
    "TRIES": (0, branched, (SQUARE,), ({0: N},)),
    "COSTLY_TRIES": (
        0,
        masked,
        (torch.ones(2, 4), torch.tensor([4, 3])),
        ({0: ROWS, 1: size("c", 1, 5)}, {0: ROWS}),
    ),
    "RETRIES": (0, divided, (torch.ones(0, 1),), ({0: size("a", 0, 3), 1: size("b", 1, 4)},)),
    "CHEAP_ELEMENTS": (0, branched, (SQUARE,), ({0: N},)),
    "LARGE_ELEMENTS": (0, branched, (SQUARE,), ({0: N},)),
    "LARGE_PROGRAM": (1, branched, (SQUARE,), ({0: N},)),
    "KERNEL_POINTS": (2, odd, (SQUARE,), ({0: size("n", 1, 40)},)),
    "EXTENT_POINTS": (1, raising, (torch.ones(3, 4),), (BOX,)),
    "EXTENT_BOX": (0, raising, (torch.ones(3, 4),), (BOX,)),
    "TIED_SIZES": (0, masking_nothing, (torch.ones(3), torch.ones(3, dtype=torch.bool)), ({0: Dim.AUTO},) * 2),
    "COMPARISONS": (0, branched, (SQUARE,), ({0: Dim.AUTO},)),
    "ROUNDS": (3, asking_again, (SQUARE,), ({0: N},)),
    "HELD": (0, held(), (torch.ones(6, 2),), ({0: N},)),
}


def says(function, args, shapes):
    """What a report says, or an error."""
    try:
        return str(check(Calls(function), args, dynamic_shapes=shapes))
    except Exception as error:  # noqa: BLE001 - it is compared
        return str(error)


@pytest.mark.thorough
@pytest.mark.parametrize("name", MODELS)
def test_a_model_needs_the_limit(monkeypatch, name):
    lower, *model = MODELS[name]
    as_it_is = says(*model)
    for key, module in [*sys.modules.items()]:
        if key.startswith("shapeproof.export.") and name in vars(module):
            monkeypatch.setattr(module, name, lower)
    assert says(*model) != as_it_is


def test_every_limit_has_a_model():
    named = {name for name in vars(limits) if name.isupper()}
    assert named == {*MODELS, *ELSEWHERE}
    assert all(name in (Path(__file__).parent / file).read_text() for name, file in ELSEWHERE.items())
