"""A size that is 0 or 1 and nothing else stays a size in a file: torch.export.load makes constants of such sizes.

The faults: a program of such a size, or a region of one, refused a size of 1 once it was loaded; later, torch could not
take the loaded program apart.
"""

from __future__ import annotations

import io

import pytest
import torch
from torch.export import Dim

from shapeproof.export import export, load_regions
from tests.agreement import agree


class Doubles(torch.nn.Module):
    def forward(self, x):
        return x * 2, x.reshape(-1), torch.cat([x, x])


class Branches(torch.nn.Module):
    def forward(self, x):
        return x + 1 if x.shape[0] <= 1 else x * 2


def loaded(program):
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    return torch.export.load(file)


@pytest.mark.parametrize("form", [lambda program: program, lambda program: program.run_decompositions()])
@pytest.mark.parametrize("example", [0, 1])
def test_a_loaded_program_takes_both_sizes_and_no_other(example, form):
    shapes = {"x": {0: Dim("b", min=0, max=1), 1: Dim("c", min=0, max=3)}}
    program = form(export(Doubles(), (torch.ones(example, 3),), dynamic_shapes=shapes))
    again = loaded(program)
    for run in (again, again.run_decompositions(), loaded(again), program, program.run_decompositions()):
        for rows in range(2):
            assert all(agree(Doubles(), run.module(), (torch.randn(rows, columns),)) for columns in range(4))
    for run in (again, loaded(again), program, program.run_decompositions()):
        with pytest.raises((RuntimeError, AssertionError)):
            run.module()(torch.ones(2, 3))


def test_a_loaded_region_takes_both_sizes(tmp_path):
    shapes = {"x": {0: Dim("b", min=0, max=8)}}
    regions = export(Branches(), (torch.ones(3, 2),), dynamic_shapes=shapes, branches="split")
    regions.save(tmp_path / "regions.pt2")
    run = load_regions(tmp_path / "regions.pt2").module()
    assert all(agree(Branches(), run, (torch.randn(rows, 2),)) for rows in range(9))
