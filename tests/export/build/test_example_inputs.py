"""What a program notes as its example: the user's inputs, or inputs that it takes, with data."""

from __future__ import annotations

import torch
from torch.export import Dim

from shapeproof.export import TensorSpec, export


class Parted(torch.nn.Module):
    def forward(self, x, *, scale):
        return x * scale if x.shape[0] < 4 else x - 1


SHAPES = {"x": {0: Dim("n", min=1, max=8)}, "scale": None}


def test_a_program_notes_the_users_own_example():
    example = torch.arange(3.0)
    program = export(torch.nn.Identity(), (example,), dynamic_shapes=({0: Dim("n", min=0)},))
    assert program.example_inputs == ((example,), {})


def test_the_program_of_another_region_notes_inputs_that_it_takes():
    regions = export(Parted(), (torch.arange(3.0),), {"scale": 2.0}, dynamic_shapes=SHAPES, branches="split")
    noted = {len(each.example_inputs[0][0]): each for each in regions.programs}
    assert sorted(noted) == [3, 4]
    for each in noted.values():
        args, kwargs = each.example_inputs
        assert torch.equal(each.module()(*args, **kwargs), Parted()(*args, **kwargs))


def test_without_an_example_the_noted_inputs_have_data():
    spec = TensorSpec(torch.int64, (Dim("n", min=3, max=8),))
    (noted,), _ = export(torch.nn.Identity(), (spec,)).example_inputs
    assert noted.shape == (3,)
    assert set(noted.tolist()) <= {0, 1}
