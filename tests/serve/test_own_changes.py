"""State that a model changes itself: programs ignore it if no result depends on it; else the model runs itself."""

from __future__ import annotations

import collections
import itertools

import numpy as np
import pytest
import torch

from shapeproof.serve import compile as served
from shapeproof.serve.calling.reach import Reach
from shapeproof.serve.calling.rehearsal import own_changes
from tests.serve.test_watched_state import first, model_of

COUNT = 0


def counting(self, x):
    self.v += 1
    return x + 1


def logging(self, x):
    self.v.append(x)
    return x + 1


def in_a_dict(self, x):
    self.v["calls"] += 1
    return x + 1


def globally(_, x):
    global COUNT  # noqa: PLW0603 - what is tested
    COUNT += 1
    return x + 1


def shaped(self, x):
    self.v = x.shape
    return x.view(self.v[0], -1)


UNREAD = {
    "a number": (counting, 0),
    "a list": (logging, []),
    "a dict": (in_a_dict, collections.Counter()),
    "a global": (globally, None),
    "what is written before it is read": (shaped, torch.Size([2, 2])),
}


@pytest.mark.parametrize("name", UNREAD)
def test_state_that_a_model_changes_and_does_not_read_is_no_reason_to_export(name):
    use, value = UNREAD[name]
    model = model_of(use, value)
    run = served(model)
    for rows in (2, 3, 4, 5):
        x = torch.randn(rows, 2)
        assert torch.equal(run(x), model(x))  # each call of the model changes it
    assert (run.traced, len(run.programs)) == (2, 1)


def test_a_rehearsal_leaves_everything_as_it_was():
    log, model, count = collections.deque(), model_of(globally), COUNT
    model.inner.register_forward_hook(lambda *_: log.append(1))
    model.register_forward_hook(lambda self, *_: self.inner(torch.ones(1)))
    own, read = own_changes(model, (torch.ones(2, 2),), {}, Reach(model), frozenset())
    assert (COUNT, len(log), read, len(own)) == (count, 0, "", 2)


def multiplied(self, x):
    self.v += 1
    return x * self.v


def every_third(self, x):
    self.v += 1
    return x * 2 if self.v % 3 == 0 else x


def only_first(self, x):
    was, self.v = self.v, False
    return x * 0 if was else x + 1


def greatest(self, x):
    self.v = max(self.v, x.shape[0])
    return x * self.v


def remembered(self, x):
    rows = x.shape[0]
    if rows not in self.v:
        self.v[rows] = torch.full((), float(len(self.v) + 1))
    return x * self.v[rows]


def made_once(self, x):
    if self.v is None:
        self.v = 2.0
    return x * self.v


def taken_away(self, x):
    return x * (vars(self).pop("v") if "v" in vars(self) else 3.0)


READ = {
    "a number": (multiplied, lambda: 0),
    "a number, now and then": (every_third, lambda: 0),
    "a flag": (only_first, lambda: True),
    "the greatest size": (greatest, lambda: 0),
    "a cache": (remembered, dict),
    "made once": (made_once, lambda: None),
    "taken away": (taken_away, lambda: 2.0),
    "a tensor": (lambda self, x: (setattr(self, "v", self.v * 0.5 + x.sum()), x + self.v)[1], lambda: torch.zeros(())),
}


@pytest.mark.parametrize("name", READ)
def test_a_model_that_reads_what_it_changes_runs_itself(name):
    """The fault: a program kept the state of its trace; eager goes on."""
    use, make = READ[name]
    mine, other = model_of(use, make()), model_of(use, make())
    run = served(mine)
    for rows in (3, 3, 5, 2, 3, 7, 7, 2, 9, 3):
        x = torch.full((rows, 2), float(rows))
        assert torch.equal(run(x), other(x))
    assert run.traced <= 5


def test_a_counter_in_a_closure_is_eagers():
    def model():
        count = 0

        def use(_, x):
            nonlocal count
            count += 1
            return x * count

        return model_of(use)

    mine, other = model(), model()
    run = served(mine)
    assert all(torch.equal(run(torch.ones(2)), other(torch.ones(2))) for _ in range(6))
    assert run.programs == ()


@pytest.mark.quick
@pytest.mark.parametrize(
    ("use", "value"),
    [
        (lambda self, x: x * next(self.v), lambda: itertools.count(1)),
        (first, lambda: np.array([2.0], dtype=object)),
        (lambda self, x: x * len(self.v), type("Odd", (list,), {"__len__": lambda _: 3})),
    ],
)
def test_a_model_with_state_that_cannot_be_read_runs_itself_and_says_so(use, value):
    run, other = served(model_of(use, value())), model_of(use, value())
    assert all(torch.equal(run(torch.ones(2)), other(torch.ones(2))) for _ in range(3))
    assert "the state of `model.v` cannot be read" in str(run.misses[0])
