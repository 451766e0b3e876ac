"""The ladder (explore/ladder.py): the cheapest step that justifies an answer wins, and its table names every step."""

from __future__ import annotations

import inspect
import re

import pytest
import torch

from shapeproof.export import Dim, check
from shapeproof.export.explore import ladder
from shapeproof.export.explore.ladder import Ladder, Settled

MOST_STEPS = 12
ROWS = re.findall(r"^    (\w[\w ]*?)  +\S", ladder.__doc__ or "", re.MULTILINE)
STEPS = [row for row in ROWS if row not in {"step", "known", "rejoined", "in place"}]
N = Dim("n", min=1, max=8)


def steps_of_class():
    """The methods that are steps, in the order in which the class has them."""
    made = inspect.getmembers(Ladder, inspect.isfunction)
    steps = [each for _, each in made if inspect.signature(each).return_annotation == "Settled | None"]
    public = [each for each in steps if not each.__name__.startswith("_")]
    return [each.__name__ for each in sorted(public, key=lambda each: each.__code__.co_firstlineno)]


def settled_by(monkeypatch, model, *args, **declared):
    """The names of the steps that told something, in order."""
    told = []

    def telling(step):
        def noting(self, case) -> Settled | None:
            settled = step(self, case)
            told.extend([] if settled is None else [step.__name__])
            return settled

        return noting

    for name in STEPS:
        monkeypatch.setattr(Ladder, name, telling(getattr(Ladder, name)))
    check(model, args, **declared)
    return told


class Of(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def test_the_table_has_the_steps_in_their_order():
    assert steps_of_class() == STEPS
    assert len(ROWS) - 1 <= MOST_STEPS


def test_a_step_takes_a_case_alone():
    assert {str(inspect.signature(getattr(Ladder, name))) for name in STEPS} == {
        "(self, case: 'Case') -> 'Settled | None'"
    }


def checked(x):
    torch._check(x.shape[0] >= 2)
    return x * 2


def doubled(x):
    return x * 100 if x.shape[0] == 1 else x + 1


def by_data(x):
    y = doubled(x)
    return y + 1 if x.sum().item() > 0 else y - 1


MODELS = {
    "trace trace reported": (by_data, N),
    "excluded": (checked, Dim.AUTO),
    "run": (lambda x: x.squeeze(0) * 1.0, N),
    "rejection": (lambda x: x.view(4, 3), N),
    "trace": (doubled, N),
}
"""Models, and the size of their inputs, by the steps that settle their cells."""


@pytest.mark.parametrize("steps", MODELS)
def test_the_cheapest_step_that_can_tell_tells(monkeypatch, steps):
    function, size = MODELS[steps]
    told = settled_by(monkeypatch, Of(function), torch.randn(4, 3), dynamic_shapes=(((size, None),),))
    assert told == steps.split()


def test_without_a_trace_left_a_cell_is_undecided(monkeypatch):
    monkeypatch.setattr(ladder, "TRACE_LIMIT", 1)
    assert settled_by(monkeypatch, Of(doubled), torch.randn(4, 3), dynamic_shapes=(((N, None),),)) == ["spent"]
