"""needless_constraints says which relations a proof does without: without them, everything is still proved."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim
from torch.fx.experimental import dynamic_spec
from torch.fx.experimental.dynamic_spec import ShapesSpec, ShapeVar, TensorSpec

from shapeproof.constraints.errors import UsageError
from shapeproof.export import needless_constraints


class Fours(torch.nn.Module):
    """Takes rows by fours, and no fewer columns than rows."""

    def forward(self, x):
        return x.reshape(-1, 4).sum(), torch.diagonal(x).sum() + x[:, x.shape[0] - 1]


EXAMPLE = (torch.ones(4, 9),)
SHAPES = ({0: Dim("rows", min=1, max=32), 1: Dim("columns", min=1, max=32)},)
NEEDED = ("rows % 4 == 0", "rows <= columns")


@pytest.mark.thorough
def test_what_is_needed_is_not_named_and_what_is_not_is():
    more = ("columns <= 30", "rows % 2 == 0", "rows != 5")
    assert needless_constraints(Fours(), EXAMPLE, dynamic_shapes=SHAPES, constraints=(*NEEDED, *more)) == more


def test_of_two_that_say_the_same_one_is_kept():
    twice = ("rows % 4 == 0", "rows // 4 * 4 == rows", "rows <= columns")
    assert needless_constraints(Fours(), EXAMPLE, dynamic_shapes=SHAPES, constraints=twice) == ("rows % 4 == 0",)


def test_what_is_inferred_anyway_need_not_be_written():
    class Branches(torch.nn.Module):
        def forward(self, x):
            return x * 2 if x.shape[0] % 2 == 0 else x + 1

    said = {"dynamic_shapes": ({0: Dim.AUTO},), "constraints": ("x.shape[0] % 2 == 0", "x.shape[0] <= 8")}
    assert needless_constraints(Branches(), (torch.ones(4),), **said) == said["constraints"]


def test_the_assumptions_of_a_spec_are_named_as_they_are_written():
    b, c = ShapeVar("b", min=1, max=32), ShapeVar("c", min=1, max=32)
    spec = ShapesSpec({"x": TensorSpec([b, c])}, assumptions=[b % 4 == 0, b % 2 == 0, b <= c])
    assert needless_constraints(Fours(), EXAMPLE, dynamic_shapes=spec) == ("b % 2 == 0",)


@pytest.mark.skipif(not hasattr(dynamic_spec, "dynamic_spec"), reason="torch 2.13 has no @dynamic_spec")
def test_the_assumptions_of_a_decorated_forward_are_named():
    b = ShapeVar("b")

    class Decorated(torch.nn.Module):
        @dynamic_spec.dynamic_spec(ShapesSpec({"x": TensorSpec([b])}, assumptions=[b >= 2]))
        def forward(self, x):
            return x + 1

    assert needless_constraints(Decorated(), (torch.ones(3),)) == ("b >= 2",)


def test_of_a_model_that_is_not_proved_nothing_is_said():
    with pytest.raises(UsageError, match="the model is not proved with all of the constraints"):
        needless_constraints(Fours(), EXAMPLE, dynamic_shapes=SHAPES, constraints=("rows <= columns",))
