"""Code in a model that reaches the model past its arguments: a copy's code reaches the copy, or the model is refused.

The fault: traces and replays run copies, and a hook whose closure held the model wrote into the model itself: what it
wrote was lost, and the program was proved without it.
"""

from __future__ import annotations

import functools
import weakref
from types import SimpleNamespace

import pytest
import torch
from torch.export import Dim

from shapeproof.constraints.errors import UsageError
from shapeproof.export import check


class Scale(torch.nn.Module):
    """Does something else after its part has raised a flag."""

    def __init__(self):
        super().__init__()
        self.part, self.control = torch.nn.Identity(), torch.nn.Identity()
        self.state, self.flag, self.control.flag = SimpleNamespace(flag=False), False, False

    def forward(self, x):
        y = self.part(x)
        return y * 100 if self.flag or self.control.flag or self.state.flag else y * 2


def raising(target, x):
    target.flag = x.shape[0] == 4


def of_the_model(model):
    model.part.register_forward_pre_hook(lambda _, given: raising(model, given[0]))


def of_a_part(model):
    model.part.register_forward_hook(lambda _, given, __: raising(model.control, given[0]))


def of_an_object(model):
    state = model.state
    model.part.register_forward_hook(lambda _, given, __: raising(state, given[0]))


def by_a_default(model):
    model.part.register_forward_hook(lambda _, given, __, to=model: raising(to, given[0]))


def by_a_partial(model):
    model.part.register_forward_hook(functools.partial(lambda to, _, given, __: raising(to, given[0]), model))


def in_two_steps(model):
    def inner(x):
        raising(model, x)
        return x

    model.part.forward = lambda x: inner(x) + 0


FOLLOWED = [of_the_model, of_a_part, of_an_object, by_a_default, by_a_partial, in_two_steps]
MODEL = None


def in_a_list(model):
    held = [model]
    model.part.register_forward_hook(lambda _, given, __: raising(held[0], given[0]))


def by_a_weak_reference(model):
    held = weakref.ref(model)
    model.part.register_forward_hook(lambda _, given, __: raising(held(), given[0]))


def by_a_global(model):
    global MODEL  # noqa: PLW0603 - the fault is about globals
    MODEL = model
    model.part.register_forward_hook(lambda _, given, __: raising(MODEL, given[0]))


def of_a_class(model):
    class Part(torch.nn.Module):
        def forward(self, x):
            raising(model, x)
            return x

    model.part = Part()


NOT_FOLLOWED = [in_a_list, by_a_weak_reference, by_a_global, of_a_class]


def checked(set_up):
    model = Scale()
    set_up(model)
    return model, check(model, (torch.ones(3, 4),), dynamic_shapes=({0: Dim("n", min=0, max=5)},))


@pytest.mark.parametrize("set_up", FOLLOWED, ids=lambda each: each.__name__)
def test_what_code_writes_into_the_model_is_seen_in_its_copies(set_up):
    model, report = checked(set_up)
    assert report.status == "refuted"
    assert "x.shape[0] == 4" in report.diagnostics[0].message
    assert not model.flag


@pytest.mark.parametrize("set_up", NOT_FOLLOWED, ids=lambda each: each.__name__)
def test_what_no_copy_can_follow_is_refused(set_up):
    with pytest.raises(UsageError, match=f"`{set_up.__name__}.*` reaches the model past its arguments"):
        checked(set_up)


def by_a_method_that_forward_calls(model):
    model.part = Noting()
    globals()["MODEL"] = model


class Noting(torch.nn.Module):
    """Its method names a global, which may be the model."""

    def forward(self, x):
        self.note(x)
        return x

    def note(self, x):
        raising(MODEL, x)


class Quiet(Noting):
    """Never calls that method."""

    def forward(self, x):
        return x + 0


def test_a_method_counts_where_forward_names_it():
    with pytest.raises(UsageError, match=r"`Noting\.note` reaches the model"):
        checked(by_a_method_that_forward_calls)
    model, report = checked(lambda model: globals().update(MODEL=model) or setattr(model, "part", Quiet()))
    assert report.status == "proved"
    assert not model.flag


def test_features_that_a_hook_keeps_in_the_model_are_the_copys():
    class Features(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.part, self.kept = torch.nn.Linear(4, 4), {}
            self.part.register_forward_hook(lambda _, __, made: self.kept.__setitem__("part", made))

        def forward(self, x):
            self.part(x)
            return self.kept["part"] * 2

    model = Features()
    report = check(model, (torch.ones(3, 4),), dynamic_shapes=({0: Dim("n", min=0, max=5)},))
    assert report.status == "proved"
    assert model.kept == {}
    run = report.program.module()
    assert all(torch.equal(model(x), run(x)) for x in map(torch.ones, range(6), [4] * 6))
