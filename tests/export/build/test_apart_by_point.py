"""Programs that torch takes apart only if the trace's point answers: they agree with eager, or a sentence says why."""

from __future__ import annotations

import itertools

import pytest
import torch

from shapeproof.constraints.errors import UsageError
from shapeproof.export import Dim, export

N, M = Dim("n", min=0, max=6), Dim("m", min=0, max=6)


class Expanded(torch.nn.Module):
    def forward(self, x):
        return x[:1].expand_as(x) + 0


class Added(torch.nn.Module):
    def forward(self, x):
        z = torch.zeros(8, 8)
        z[: x.shape[0], : x.shape[1]].add_(x[:1])
        return z


class Halved(torch.nn.Module):
    def forward(self, x):
        return torch.maximum(x, x[: min(x.shape[0], 1)])


@pytest.mark.thorough
@pytest.mark.parametrize("mod", [Expanded(), Added(), Halved()], ids=lambda mod: type(mod).__name__)
def test_a_row_that_may_be_missing_is_broadcast_at_every_size(mod):
    program = export(mod, (torch.randn(4, 3),), dynamic_shapes=({0: N, 1: M},))
    apart = program.run_decompositions().module()
    for rows, columns in itertools.product((0, 1, 2, 5), (0, 1, 3)):
        x = torch.randn(rows, columns)
        torch.testing.assert_close(apart(x), mod(x))


class EndsSwapped(torch.nn.Module):
    def forward(self, z):
        few = min(z.shape[0], 2)
        z = z.clone()
        z[:few] = z[-few:].clone()
        return z


def test_what_torch_cannot_take_apart_is_said_in_a_sentence():
    program = export(EndsSwapped(), (torch.randn(4, 3),), dynamic_shapes=({0: N},))
    with pytest.raises(UsageError, match="torch cannot take the program apart for every declared size"):
        program.run_decompositions()
