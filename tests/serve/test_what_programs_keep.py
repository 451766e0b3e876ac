"""What a program keeps of the model as it was traced is looked at before the program is run."""

from __future__ import annotations

import contextlib
import functools
import random

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint

from shapeproof.serve import compile  # noqa: A004
from tests.tiny_models import Hundredfold


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


class Adding(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **kwargs or {})
        return result + 1 if func is torch.relu else result


def test_under_a_mode_that_sees_each_call_the_model_runs_itself():
    """The fault: a program ran that had been traced without the mode; one that was traced under it was kept."""

    class Relu(nn.Module):
        def forward(self, x):
            return torch.relu(x)

    run, x = warm(Relu()), torch.ones(4, 4)
    before = run(x)
    traced = run.traced
    with Adding():
        assert torch.equal(run(x), before + 1)
        assert torch.equal(run(torch.ones(1, 4)), torch.full((1, 4), 2.0))
    assert torch.equal(run(x), before)
    assert run.traced == traced
    assert "a mode that sees each call of torch: Adding; program" in str(run.misses[-1])


def test_an_input_that_is_more_than_its_sizes_and_data_is_given_to_the_model():
    class Asks(nn.Module):
        def forward(self, x):
            return x * (2 if isinstance(x, nn.Parameter) or x.is_conj() else 3)

    run, x = warm(Asks()), torch.ones(4, 4)
    assert [run(each).sum().item() for each in (x, nn.Parameter(x), x.to(torch.complex64).conj())] == [48, 32, 32]


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


class Kept(nn.Module):
    """Reads what it keeps in attributes of every kind."""

    def __init__(self):
        super().__init__()
        self.plain, self.scale = torch.ones(4), 2.0
        self.listed, self.named = [torch.ones(4), torch.ones(4)], {"a": torch.ones(4)}
        self.nested = ({"b": [torch.ones(4)]},)
        self.object = type("Table", (), {})()
        self.object.rows = torch.ones(4)

    def forward(self, x):
        kept = self.plain + self.listed[0] + self.named["a"] + self.nested[0]["b"][0] + self.object.rows
        return (x * kept * torch.tensor([1.0, 1.0, 1.0, 1.0])) * self.scale + len(self.listed)


WITHIN = {
    "an attribute": lambda model: model.plain,
    "a list": lambda model: model.listed[0],
    "a dict": lambda model: model.named["a"],
    "a list in a dict in a tuple": lambda model: model.nested[0]["b"][0],
    "an object": lambda model: model.object.rows,
}


def test_what_is_written_into_a_tensor_of_the_models_is_seen():
    """The fault: programs went on with copies of tensors in lists and dicts."""
    model, x = Kept(), torch.randn(5, 4)
    run = warm(model)
    for held in WITHIN.values():
        held(model).mul_(3)
        assert torch.equal(run(x), model(x))
        held(model).data.add_(1)
        assert torch.equal(run(x), model(x))
    assert run.traced == 2


REPLACED = {
    "a tensor": lambda model: setattr(model, "plain", torch.zeros(4)),
    "a number": lambda model: setattr(model, "scale", 3.0),
    "in a list": lambda model: model.listed.__setitem__(0, torch.zeros(4)),
    "in a dict": lambda model: model.named.update(a=torch.zeros(4)),
    "in an object": lambda model: setattr(model.object, "rows", torch.zeros(4)),
    "one more": lambda model: model.listed.append(None),
    "by name of another type": lambda model: setattr(model, "scale", 2),
}


@pytest.mark.thorough
def test_what_is_replaced_in_attributes_is_seen():
    model, x = Kept(), torch.randn(5, 4)
    run = warm(model)
    for traced, (name, change) in enumerate(REPLACED.items(), run.traced + 1):
        change(model)
        assert torch.equal(run(x), model(x)), name
        assert run.traced == traced


def test_what_a_model_changes_itself_is_not_traced_for_again_and_again():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.calls, self.log = 0, []

        def forward(self, x, _=None):
            self.calls += 1
            self.log.append(self.calls)
            return x + 1

    run = warm(Counts())
    for rows in (4, 5, 6):
        run(torch.ones(rows, 4), object())  # of which no program is made
        run(torch.ones(rows, 4))
    assert (run.traced, len(run.programs), run.model.calls) == (2, 1, 3)


def test_a_size_is_given_as_one():
    class Sizes(nn.Module):
        def forward(self, x):
            return {"whole": x.shape, "both": [x.shape[:1], (x, x.size())]}

    run, x = warm(Sizes()), torch.ones(5, 4)
    got = run(x)
    assert got["both"][1][0] is x or torch.equal(got["both"][1][0], x)
    assert [got["whole"], got["both"][0], got["both"][1][1]] == [x.shape, x.shape[:1], x.shape]
    assert {type(each) for each in (got["whole"], got["both"][0], got["both"][1][1])} == {torch.Size}


# ---------------------------------------------------------------------- gradients


def hooked(x):
    if x.requires_grad:
        x.register_hook(lambda grad: grad * 7)
    return x


GRADIENTS = {
    "a Function": lambda x: Hundredfold.apply(x * 2),
    "a hook": lambda x: hooked(x * 2),
    "a hook, later": lambda x: hooked(x.sin()).cos(),
    "a Function beside": lambda x: x + Hundredfold.apply(x).detach(),
    "made to require them": lambda x: x.detach().clone().requires_grad_() * 3 + x,
    "disabled": lambda x: torch.no_grad()(lambda: x * 2)() + x,
    "asked for": lambda x: x * (2 if x.requires_grad else 3),
    "a leaf": lambda x: x * (2 if x.is_leaf else 3),
    "a function": lambda x: x * (2 if x.grad_fn is None else 3),
    "data": lambda x: x.data * 2 + x,
}


def gradient(run, x):
    x = x.clone()  # no leaf
    x.retain_grad()
    result = run(x)
    result.square().sum().backward()
    return result, x.grad


@pytest.mark.parametrize("name", GRADIENTS)
@pytest.mark.parametrize("trained", [True, pytest.param(False, marks=pytest.mark.thorough)])
def test_gradients_are_the_models(name, trained):
    """The fault: a program lost the backward of a Function, and hooks, and took what was traced without gradients."""

    class Model(nn.Module):
        def forward(self, x):
            return GRADIENTS[name](x)

    model, run = Model(), compile(Model())
    for rows in (2, 3):
        run(torch.ones(rows, 4, requires_grad=trained))
    x = torch.randn(5, 4, requires_grad=True)
    for got, want in zip(gradient(run, x), gradient(model, x), strict=True):
        assert torch.allclose(got, want)
    with torch.no_grad():
        assert torch.equal(run(x), model(x))


def test_the_backward_of_a_function_is_not_put_aside_in_silence():
    class Model(nn.Module):
        def forward(self, x):
            return Hundredfold.apply(x)

    run = compile(Model())
    run(torch.ones(2, requires_grad=True))
    assert str(run.misses[0]) == (
        "x.shape[0] = 2; there is no program; a program has not the backward of an autograd.Function"
    )


SCALE = 2.0


def scaled(x):
    return x * SCALE


@functools.singledispatch
def by_kind(x):
    return x * SCALE


@contextlib.contextmanager
def scale():
    yield SCALE


def in_a_block(x):
    with scale() as factor:
        return x * factor


MADE_BY_LIBRARIES = {
    "torch.no_grad": torch.no_grad()(scaled),
    "torch.vmap": torch.vmap(scaled),
    "torch.compile": torch.compile(scaled, backend="eager"),
    "two decorators": torch.no_grad()(torch.autocast("cpu", enabled=False)(scaled)),
    "functools.singledispatch": by_kind,
    "contextlib.contextmanager": in_a_block,
}


@pytest.mark.parametrize("name", MADE_BY_LIBRARIES)
def test_a_function_that_a_library_made_of_the_users_is_read(name, monkeypatch):
    """The fault: the code of a decorator is a library's, and what it holds was not looked at."""
    made = MADE_BY_LIBRARIES[name]

    class Model(nn.Module):
        def forward(self, x):
            return made(x)

    model, x = Model(), torch.ones(2, 4)
    run = warm(model)
    traced = run.traced
    monkeypatch.setitem(globals(), "SCALE", 5.0)
    assert torch.equal(run(x), x * 5)
    assert run.traced == traced + 1


class Slots:
    __slots__ = ("factor",)


def test_a_model_with_an_object_of_slots_is_served():
    """The fault: the place of a slot in its class was state that cannot be read, so the model ran itself."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.held = Slots()
            self.held.factor = 2.0

        def forward(self, x):
            return x * self.held.factor

    model = Model()
    run, x = warm(model), torch.ones(2, 4)
    assert run.traced
    model.held.factor = 3.0
    assert torch.equal(run(x), x * 3)


def test_a_partial_that_is_called_changes_no_state():
    """The fault: where Python keeps how to call it was taken for state that the model changes and may read."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.scaled = functools.partial(checkpoint, scaled, use_reentrant=False)

        def forward(self, x):
            return self.scaled(x)

    assert warm(Model()).programs


class Steps(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("step", torch.tensor(1))

    def forward(self, x):
        return x * 2 if self.step > 0 else x - 1


def test_a_program_is_run_while_a_buffer_has_the_number_that_it_was_made_for():
    """The fault: the program was called and raised, where eager goes another way."""
    model, x = Steps(), torch.ones(2, 4)
    run = warm(model)
    traced = run.traced
    for number in (-1, 1, -1):
        model.step.fill_(number)
        assert torch.equal(run(x), model(x))
    assert run.traced == traced + 1
    assert "the buffer step = -1; program" in str(run.misses[-1])
