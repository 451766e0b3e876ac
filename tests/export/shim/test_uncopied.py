"""Models that hold what `copy.deepcopy` refuses are exported, and keep it as it was."""

from __future__ import annotations

import threading

import pytest
import torch
from torch.export import Dim

from shapeproof.export import check, export

ROWS = Dim("n", min=0, max=6)


class Holds(torch.nn.Module):
    """A model that holds something, deep in its attributes, and calls it if it can be called."""

    def __init__(self, held):
        super().__init__()
        self.held = {"one": [held]}

    def forward(self, x):
        (held,) = self.held["one"]
        return held(x) if callable(held) else x * 2


class Frozen(dict):
    """A dictionary that refuses to be changed, as the configurations of diffusers do."""

    def update(self, *_, **__):
        raise TypeError("frozen")

    __setitem__ = update


@torch.jit.script
def scripted(x: torch.Tensor):
    return x * 2


UNCOPIED = {
    "traced function": lambda: torch.jit.trace(lambda x: x * 2, torch.ones(3, 2)),
    "scripted function": lambda: scripted,
    "lock": threading.Lock,
    "generator": lambda: (n for n in range(3)),
    "thread-local": threading.local,
}


@pytest.mark.parametrize("name", UNCOPIED)
def test_what_has_no_copy_is_shared(name):
    held = UNCOPIED[name]()
    mod = Holds(held)
    report = check(mod, (torch.ones(3, 2),), dynamic_shapes={"x": {0: ROWS}})
    assert report.status == "proved", str(report)
    assert mod.held["one"] == [held]
    run, inputs = report.program.module(), [torch.randn(n, 2) for n in range(7)]
    assert all(torch.equal(run(x), x * 2) for x in inputs)


class Cache(torch.nn.Module):
    """A cache in a plain list that is a buffer too, as transformers' StaticCache is."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        self.store = [torch.zeros(1, 64, 4)]
        self.register_buffer("first", self.store[0])

    def forward(self, x, at):
        self.store[0].index_copy_(1, at, self.layer(x))
        return self.store[0].sum(1) + x.sum(1)


@pytest.mark.parametrize("tracked", [True, False])
def test_a_cache_in_a_list_is_exported_and_stays_a_leaf(tracked):
    mod, rows = Cache().eval(), Dim("n", min=1, max=32)
    with torch.set_grad_enabled(tracked):
        report = check(mod, (torch.randn(1, 5, 4), torch.arange(5)), dynamic_shapes=({1: rows}, {0: rows}))
    assert report.status == "proved", str(report)
    assert mod.store[0] is mod.first
    assert mod.first.is_leaf
    assert not mod.first.any()


class Layer(torch.nn.Module):
    """A layer that counts its calls."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return self.layer(x)


def around(forward, names):
    """A function in place of a method, as libraries wrap `forward`: it notes its calls."""

    def wrapped(x):
        names.append("x")
        return again(x) if len(x.shape) > 5 else forward(x) * 2

    again = wrapped
    return wrapped


def test_a_function_in_place_of_forward_goes_on_to_the_copy_and_notes_nothing_in_the_model():
    """The fault: every run and trace was of the one model, whose parameters were constants of the program."""
    mod, names = Layer(), []
    mod.forward = around(mod.forward, names)
    report = check(mod, (torch.ones(3, 2),), dynamic_shapes={"x": {0: ROWS}})
    assert report.status == "proved", str(report)
    assert sorted(report.program.state_dict) == ["layer.bias", "layer.weight"]
    assert (mod.calls, names) == (0, [])
    run = report.program.module()
    assert all(torch.allclose(run(x), mod.layer(x) * 2) for x in [torch.randn(n, 2) for n in range(7)])


def test_a_model_may_hold_a_dictionary_that_refuses_changes():
    """The fault: no model of diffusers could be exported, whose configuration refuses `update`."""
    mod = Holds(torch.nn.Identity())
    mod.config = Frozen({"scale": 2, "activation": torch.relu, "shown": around(mod.forward, [])})
    assert check(mod, (torch.ones(3, 2),), dynamic_shapes={"x": {0: ROWS}}).status == "proved"


class HoldsTensors(torch.nn.Module):
    """A parameter, buffers of both kinds, in a part too, an attribute, and a constant of `forward`."""

    def __init__(self):
        super().__init__()
        self.part = torch.nn.BatchNorm1d(3)
        self.part.register_buffer("unsaved", torch.ones(3), persistent=False)
        self.part.attribute = torch.ones(3)
        self.attribute = torch.ones(3)

    def forward(self, x):
        return self.part(x) + self.part.unsaved + self.part.attribute + self.attribute + torch.tensor(2.0)


@pytest.mark.parametrize("first", [export, torch.export.export])
def test_a_program_of_a_programs_module_holds_its_tensors_as_that_program(first):
    """The fault: constants and unsaved buffers came into the state dict, since torch copies a graph's module so."""
    mod, x = HoldsTensors().eval(), torch.randn(2, 3)
    program = first(mod, (x,))
    again = export(program.module(), (x,))
    for holds in (lambda each: each.state_dict, lambda each: each.constants):
        assert {*holds(again)} == {*holds(program)}
    assert again.graph_signature.lifted_tensor_constants == program.graph_signature.lifted_tensor_constants
    assert {*again.state_dict} == {*mod.state_dict()}
    assert torch.equal(again.module()(x), mod(x))
