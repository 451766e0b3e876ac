"""A model's memory that Python code can write without torch: a copy of the model would part it from the tensor."""

from __future__ import annotations

import array
import functools
import mmap

import numpy as np
import pytest
import torch
from torch.export import Dim

from shapeproof.constraints.errors import UsageError
from shapeproof.export import check
from shapeproof.export.shim.modules import held_outside_torch
from shapeproof.export.shim.storages import copied_when_written, is_copied_when_written


class Held(torch.nn.Module):
    """Has a buffer, an attribute or a parameter, and what `make` makes of memory."""

    def __init__(self, make):
        super().__init__()
        self.array, self.given = make(self)

    def forward(self, x):
        self.array[0] += 1
        return x + self.given.sum()


def of_a_buffer(mod):
    mod.register_buffer("count", torch.zeros(3))
    return mod.count.numpy(), mod.count


def of_a_parameter(mod):
    mod.weight = torch.nn.Parameter(torch.zeros(4))
    return mod.weight.detach().numpy()[2:], mod.weight


def from_numpy(_):
    made = np.zeros(3, dtype=np.float32)
    return made, torch.from_numpy(made)


def from_bytes(mod):
    made = bytearray(8)
    mod.register_buffer("packed", torch.frombuffer(made, dtype=torch.uint8, offset=4))
    return made, mod.packed


def backwards(mod):
    mod.register_buffer("count", torch.zeros(3))
    return mod.count.numpy()[::-1], mod.count


def of_fields(mod):
    made = np.zeros(3, dtype=[("first", "f4"), ("second", "f4")])
    mod.register_buffer("first", torch.from_numpy(made["first"]))
    return made["first"][::-1], mod.first


def of_times(mod):
    mod.register_buffer("seconds", torch.zeros(3, dtype=torch.int64))
    return mod.seconds.numpy().view("M8[s]"), mod.seconds


def without_dims(mod):
    mod.register_buffer("count", torch.zeros(()))
    return mod.count.numpy(), mod.count


def read_only(mod):
    mod.register_buffer("count", torch.zeros(3))
    made = mod.count.numpy().view()
    made.flags.writeable = False
    return made, mod.count


def uncopied(mod):
    made = bytearray(8)
    mod.register_buffer("packed", torch.frombuffer(made, dtype=torch.uint8))
    return memoryview(made)[::-2], mod.packed


def through_an_iterator(mod):
    mod.register_buffer("count", torch.zeros(3))
    return mod.count.numpy().flat, mod.count


def mapped(mod):
    made = mmap.mmap(-1, 8)
    mod.register_buffer("packed", torch.frombuffer(made, dtype=torch.uint8))
    return made, mod.packed


SHARED = {
    backwards: "`count` in an object of class ndarray",
    of_fields: "`first` in an object of class ndarray",
    of_times: "`seconds` in an object of class ndarray",
    without_dims: "`count` in an object of class ndarray",
    read_only: "`count` in an object of class ndarray",
    uncopied: "`packed` in an object of class memoryview",
    through_an_iterator: "`count` in an object of class flatiter",
    mapped: "`packed` in an object of class mmap",
    of_a_buffer: "`count` in an object of class ndarray",
    of_a_parameter: "`weight` in an object of class ndarray",
    from_numpy: "a tensor in an object of class ndarray",
    from_bytes: "`packed` in an object of class bytearray",
}


@pytest.mark.parametrize("make", SHARED)
def test_memory_that_python_writes_past_torch_is_refused(make):
    """The fault: the trace and eager ran on copies in which the two are apart, and agreed; the model went on."""
    with pytest.raises(UsageError, match=f"holds the memory of {SHARED[make]}, too, and no program sees"):
        check(Held(make), (torch.ones(3),), dynamic_shapes=({0: Dim("n", max=5)},))


class Apart(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))
        self.arrays = [self.weight.detach().numpy().copy(), np.zeros(0), np.array([None]), np.arange(6)[::-1]]
        self.others = [bytearray(3), b"abc", array.array("d", [1.0]), memoryview(b"abc")]

    def forward(self, x):
        return x + self.weight.sum() + float(self.arrays[0][0])


def test_memory_of_its_own_is_no_matter():
    report = check(Apart(), (torch.ones(3),), dynamic_shapes=({0: Dim("n", max=5)},))
    assert report.status == "proved"
    assert torch.equal(report.program.module()(torch.ones(2)), Apart()(torch.ones(2)))


GLOBAL = np.zeros(3, dtype=np.float32)


class Reads(torch.nn.Module):
    """Counts by torch, and reads the count by a function that holds an array."""

    def __init__(self, array_, read):
        super().__init__()
        self.register_buffer("count", torch.from_numpy(array_))
        self.read = read

    def forward(self, x):
        self.count.add_(1)
        return x + self.read()


def a_closure(held):
    return lambda: float(held[0])


def a_default(held):
    return lambda held=held: float(held[0])


def a_partial(held):
    return functools.partial(a_default(held))


def a_method(held):
    return functools.partial(held.item, 0)


@pytest.mark.parametrize("reads", [a_closure, a_default, a_partial, a_method])
def test_memory_that_a_function_holds_is_refused(reads):
    """The fault: deepcopy shares functions, so the array that one holds was the model's, and the copied buffer not."""
    held = np.zeros(3, dtype=np.float32)
    with pytest.raises(UsageError, match="holds the memory of `count` in an object of class ndarray"):
        check(Reads(held, reads(held)), (torch.ones(3),), dynamic_shapes=({0: Dim("n", max=5)},))


class Global(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.count = torch.nn.Buffer(torch.from_numpy(GLOBAL))

    def forward(self, x):
        self.count.add_(1)
        return x + float(GLOBAL[0])


def test_memory_of_a_global_that_forward_names_is_refused():
    with pytest.raises(UsageError, match="holds the memory of `count` in an object of class ndarray"):
        check(Global(), (torch.ones(3),), dynamic_shapes=({0: Dim("n", max=5)},))


def test_an_array_of_which_a_parameter_was_made_may_be_kept():
    """Scripts do: `weight = np.load(...)`, and a parameter of it."""
    model = torch.nn.Linear(3, 3)
    model.bias = torch.nn.Parameter(torch.from_numpy(GLOBAL))
    assert check(model, (torch.ones(2, 3),), dynamic_shapes=({0: Dim("n", max=5)},)).status == "proved"


def test_memory_that_is_lent_stays_shared():
    """The fault: to ask a storage where it lies, by `data_ptr`, copied each weight of a model that holds any array."""
    weight = torch.ones(3)
    lent = copied_when_written(weight)
    model = torch.nn.Linear(3, 3)
    model.bias = torch.nn.Parameter(lent)
    assert held_outside_torch(model, [np.zeros(3)]) is None
    assert is_copied_when_written(model.bias)
