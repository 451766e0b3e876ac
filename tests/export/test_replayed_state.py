"""Replays leave the model as it was, whatever the program or a custom operator writes into."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

from shapeproof.export import check


@torch.library.custom_op("shapeproof_tests::secretly", mutates_args=())
def secretly(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Writes into an operand that it says it only reads."""
    weight.data.add_(1)
    return x * 2


@secretly.register_fake
def _(x, weight):  # noqa: ARG001 - the operator's signature
    return torch.empty_like(x)


class Counts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls.add_(1)
        return x + self.calls


class Secret(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(4), requires_grad=False)

    def forward(self, x):
        return secretly(x, self.weight)


@pytest.mark.parametrize("made", [Counts, Secret, lambda: torch.nn.Linear(4, 4)])
def test_replays_leave_the_model_as_it_was(made):
    mod = made()
    before = {name: value.clone() for name, value in mod.state_dict().items()}
    report = check(mod, (torch.randn(3, 4),), dynamic_shapes=({0: Dim("n", min=0, max=6)},))
    assert report.status in {"proved", "refuted"}  # a second call of `Secret` differs from the first
    after = mod.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in before.items())
