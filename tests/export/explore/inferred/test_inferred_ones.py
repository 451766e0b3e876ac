"""Inferred sizes may be 1, also of a program so large that few parts of its domain are looked at."""

import itertools

import pytest
import torch
from torch.export import Dim

from shapeproof.export import check
from shapeproof.export.limits import LARGE_PROGRAM
from tests.agreement import agree


class Large(torch.nn.Module):
    """Asks of each of its two sizes whether it is 1, and does the same for both answers."""

    def forward(self, x):
        for _ in range(LARGE_PROGRAM):
            x = x + 1
        if x.shape[0] == 1:
            x = x.squeeze(0).unsqueeze(0)
        if x.shape[1] == 1:
            x = x.squeeze(1).unsqueeze(1)
        return x * 2


@pytest.mark.thorough
def test_a_batch_of_one_is_served_by_a_large_program():
    report = check(Large(), (torch.ones(3, 4, 2),), dynamic_shapes=({0: Dim.AUTO, 1: Dim.AUTO},))
    assert report.status == "proved", str(report)
    assert not report.notes
    for sizes in itertools.product((0, 1, 2), repeat=2):
        assert agree(Large(), report.program.module(), (torch.randn(*sizes, 2),))
