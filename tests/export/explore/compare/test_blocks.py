"""Programs with blocks where torch.autocast is off: one block holds a size of 1, where the other takes the size."""

from __future__ import annotations

import contextlib

import torch
from torch.export import Dim

from shapeproof.export import check


class Rotary(torch.nn.Module):
    """Attends under angles that are made where autocast is off; one token needs no mask: it would mask nothing.

    `exact`: of one token, too, are they made there.
    """

    def __init__(self, *, exact=True):
        super().__init__()
        self.one, self.other = (torch.nn.Linear(8, 8) for _ in range(2))
        self.register_buffer("frequencies", torch.rand(4))
        self.exact = exact

    def _block(self, length):
        return contextlib.nullcontext() if length == 1 and not self.exact else torch.autocast("cpu", enabled=False)

    def forward(self, x):
        x = self.one(x) + self.other(x)
        length = x.shape[1]
        with self._block(length):
            angles = torch.einsum("i, j -> i j", torch.arange(length).type_as(x), self.frequencies)
            angles = torch.stack((angles, angles), -1).reshape(1, length, 8)
        with self._block(length):
            turned = x * angles[:, -length:].cos()
        scores = x @ turned.mT
        if length > 1:
            scores = scores.masked_fill(torch.ones(length, length, dtype=torch.bool).triu(1), -1e9)
        return scores.softmax(-1) @ x


def checked(model):
    dims = {0: Dim("batch", min=1, max=8), 1: Dim("length", min=1, max=64)}
    with torch.no_grad():
        return check(model, (torch.randn(2, 9, 8),), dynamic_shapes=(dims,))


def test_a_block_that_holds_a_size_is_the_block_that_takes_it():
    model = Rotary()
    report = checked(model)
    assert report.status == "proved", str(report)
    program = report.program.module()
    for length in (1, 2, 64):
        x = torch.randn(3, length, 8)
        with torch.no_grad():
            torch.testing.assert_close(program(x), model(x))


def test_what_runs_outside_of_a_block_is_not_what_runs_inside():
    """A caller may have autocast on: the matrix products would differ."""
    report = checked(Rotary(exact=False))
    assert report.status != "proved"
    assert "x.shape[1] = 1" in str(report)
