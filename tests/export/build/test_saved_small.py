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


def every_one(x):
    torch._check((x > 0).all().item())
    return x * 2


def as_many(x):
    number = x.sum().long().item()
    torch._check(number == 3)
    return x * number


def as_many_as_rows(x):
    torch._check(x.sum().long().item() == x.shape[0])
    return x * 2


class Checks(torch.nn.Module):
    def __init__(self, check, *, in_a_branch):
        super().__init__()
        self.check, self.in_a_branch = check, in_a_branch

    def forward(self, x):
        return torch.cond(x.shape[0] != 2, self.check, lambda x: x * 5, (x,)) if self.in_a_branch else self.check(x)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("check", "in_a_branch"), [(every_one, True), (as_many, True), (as_many, False), (as_many_as_rows, False)]
)
def test_a_loaded_program_makes_a_check_that_leaves_a_number_one_value(check, in_a_branch):
    """The fault: torch solved the check as it loaded the program, and found no more where the number is taken."""
    model = Checks(check, in_a_branch=in_a_branch)
    program = export(model, (torch.ones(3),), dynamic_shapes={"x": {0: Dim("n", min=1, max=5)}})
    for run in (loaded(program), loaded(program.run_decompositions())):
        for rows in range(1, 6):
            assert all(agree(model, run.module(), (torch.full((rows,), float(value)),)) for value in (-1, 0, 1, 3))
