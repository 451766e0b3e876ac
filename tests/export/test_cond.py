"""Branches of torch.cond on sizes: each is compared where it is taken."""

from __future__ import annotations

import torch
from torch.export import Dim

from shapeproof.export import check
from tests.agreement import agree


class CutsWhereThereIsEnough(torch.nn.Module):
    """A branch of torch.cond with a size in it that fits only where the branch is taken."""

    def forward(self, x):
        return torch.cond(x.shape[0] > 4, lambda x: x[:4].sum(0), lambda x: x.sum(0) * 2, (x,))


def test_a_branch_of_cond_says_nothing_of_sizes_at_which_it_is_not_taken():
    report = check(CutsWhereThereIsEnough(), (torch.randn(9, 2),), dynamic_shapes=({0: Dim("n", min=2, max=16)},))
    assert report.status == "proved", str(report)
    program = report.program.module()
    assert all(agree(CutsWhereThereIsEnough(), program, (torch.randn(n, 2),)) for n in (2, 3, 4, 5, 16))


def test_a_branch_of_cond_that_is_taken_where_it_differs_is_not_passed_over():
    class CutsEarly(torch.nn.Module):
        def forward(self, x):
            times = 2 if x.shape[0] <= 3 else 3
            return torch.cond(x.shape[0] > 2, lambda x: x.sum(0) * times, lambda x: x.sum(0), (x,))

    report = check(CutsEarly(), (torch.randn(9, 2),), dynamic_shapes=({0: Dim("n", min=2, max=16)},))
    assert report.status != "proved", str(report)
    assert any(d.witness and d.witness["x.shape[0]"] == 3 for d in report.diagnostics), str(report)
