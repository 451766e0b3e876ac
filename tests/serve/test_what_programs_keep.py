"""What a program keeps of the model as it was traced is looked at before the program is run."""

from __future__ import annotations

import random

import pytest
import torch
from torch import nn

from shapeproof.serve import compile  # noqa: A004


def warm(model):
    run = compile(model)
    for rows in (2, 3):
        run(torch.ones(rows, 4))
    return run


class Shaped(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3, 4))

    def forward(self, x):
        times = 2 if self.weight.requires_grad else 1
        return nn.functional.linear(x, self.weight) * self.weight.shape[0] * times


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.b.weight = self.a.weight

    def forward(self, x):
        return self.b(self.a(x))


CHANGES = {
    "another shape": (Shaped, lambda model: setattr(model.weight, "data", torch.ones(5, 4))),
    "no gradients": (Shaped, lambda model: model.requires_grad_(False)),
    "a module more": (lambda: nn.Sequential(nn.Linear(4, 4)), lambda model: model.append(nn.ReLU())),
    "no longer tied": (Tied, lambda model: setattr(model.b, "weight", nn.Parameter(torch.ones(4, 4)))),
    "a hook": (Tied, lambda model: model.a.register_forward_hook(lambda _, __, result: result * 2)),
}


@pytest.mark.parametrize(("made", "change"), CHANGES.values(), ids=CHANGES)
def test_what_becomes_of_the_model_is_seen(made, change):
    model = made()
    run = warm(model)
    change(model)
    x = torch.randn(5, 4)
    assert torch.equal(run(x), model(x))


def test_the_default_device_is_a_mode():
    class Makes(nn.Module):
        def forward(self, x):
            return torch.zeros(x.shape[0])

    run = warm(Makes())
    with torch.device("meta"):
        assert run(torch.ones(4, 4)).device.type == "meta"


def test_an_input_that_is_more_than_its_sizes_and_data_is_given_to_the_model():
    class Asks(nn.Module):
        def forward(self, x):
            return x * (2 if isinstance(x, nn.Parameter) or x.is_conj() else 3)

    run, x = warm(Asks()), torch.ones(4, 4)
    assert [run(each).sum().item() for each in (x, nn.Parameter(x), x.to(torch.complex64).conj())] == [48, 32, 32]


@pytest.mark.thorough
def test_a_model_that_draws_pythons_random_numbers_runs_itself_and_they_are_put_back():
    class Drops(nn.Module):
        def forward(self, x):
            return x * 2 if random.random() < 0.5 else x

    run = warm(Drops())
    assert not run.programs
    random.seed(7)
    expected = [Drops()(torch.ones(1, 4)).max().item() for _ in range(20)]
    random.seed(7)
    assert [run(torch.ones(1, 4)).max().item() for _ in range(20)] == expected
