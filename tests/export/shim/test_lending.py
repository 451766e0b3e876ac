"""Copies of a model share its memory, and the model never moves from it."""

from __future__ import annotations

import copy
import gc
import weakref

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.export import Dim

from shapeproof.export import check, export
from shapeproof.export.explore.beside_eager.forms import copied, memory_shared
from shapeproof.export.shim.lending import lending
from shapeproof.export.shim.storages import is_copied_when_written, same_memory

LEFT = []
"""What a model leaves behind of a run."""


class Holds(torch.nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = torch.nn.Parameter(weight, requires_grad=weight.is_floating_point())
        self.register_buffer("count", torch.arange(4))
        self.table = torch.arange(4.0)
        self.cache = [torch.ones(4)]

    def forward(self, x):
        return x * self.weight + self.count * self.table + self.cache[0]


class WritesEverything(Holds):
    def forward(self, x):
        if not torch.compiler.is_exporting():
            for each in (self.weight, self.count, self.table, *self.cache):
                each.data.add_(1)
                each.detach().numpy()[:] += 1
        return super().forward(x)


class LeavesACopy(Holds):
    def forward(self, x):
        if not torch.compiler.is_exporting():
            LEFT.append((self.weight.data, self.count))
        return super().forward(x)


class HoldsItself(Holds):
    def __init__(self, weight):
        super().__init__(weight)
        self.me = [self]


def mapped(tmp_path):
    path = tmp_path / "weights"
    np.arange(4, dtype=np.float32).tofile(path)
    return torch.from_file(str(path), shared=True, size=4)


def shared(_):
    return torch.arange(4.0).share_memory_()


def of_numpy(_):
    return torch.from_numpy(np.arange(4, dtype=np.float32))


def part(_):
    return torch.arange(9.0)[1:9:2]


def usual(_):
    return torch.arange(4.0)


def loaded(tmp_path):
    torch.export.save(torch.export.export(Holds(torch.arange(4.0)), (torch.ones(4),)), tmp_path / "program.pt2")
    return torch.export.load(tmp_path / "program.pt2").state_dict["weight"].detach()


def tensors_of(model):
    return [model.weight, model.count, model.table, *model.cache]


def verdict(model):
    LEFT.clear()
    return check(model, (torch.randn(3, 4),), dynamic_shapes=({0: Dim("n", min=0, max=6)},))


@pytest.mark.parametrize("made", [Holds, WritesEverything, LeavesACopy, HoldsItself])
@pytest.mark.parametrize("weight", [usual, part, mapped, shared, of_numpy, loaded])
def test_a_model_stays_in_its_memory(made, weight, tmp_path):
    """The fault to avoid: a storage that torch copies when it is written is moved by its own next write."""
    model = made(weight(tmp_path))
    tensors = tensors_of(model)
    views = [each.detach().numpy() for each in tensors]
    capsules = [torch.from_dlpack(each.detach()) for each in tensors]
    where, before = [each.data_ptr() for each in tensors], [each.detach().clone() for each in tensors]
    verdict(model)
    assert not any(map(is_copied_when_written, tensors))
    assert [each.data_ptr() for each in tensors] == where
    assert all(map(torch.equal, tensors, before))
    torch.optim.SGD([model.weight], 1.0).zero_grad()
    with torch.no_grad():
        for each in tensors:
            each.add_(1)
    assert [each.data_ptr() for each in tensors] == where
    for each, view, capsule in zip(tensors, views, capsules, strict=True):
        assert torch.equal(torch.from_numpy(view), each)
        assert torch.equal(capsule, each)


def test_what_asks_for_memory_during_an_export_gets_the_models_own():
    model = Holds(torch.arange(4.0))
    where, seen = [each.data_ptr() for each in tensors_of(model)], []
    options = {"progress": lambda _: seen.append([each.data_ptr() for each in tensors_of(model)])}
    check(model, (torch.randn(3, 4),), dynamic_shapes=({0: Dim("n", min=0, max=6)},), **options)
    assert seen
    assert all(each == where for each in seen)


@pytest.mark.parametrize("keep", [export, check])
def test_a_step_of_training_afterwards_is_not_seen_in_a_copy_that_is_left(keep):
    LEFT.clear()
    model = LeavesACopy(torch.arange(4.0))
    view, where = model.weight.detach().numpy(), model.weight.data_ptr()
    result = keep(model, (torch.randn(3, 4),), dynamic_shapes=({0: Dim("n", min=0, max=6)},))
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    model(torch.ones(2, 4)).sum().backward()
    left = LEFT[:-1]  # the last one is of the call above
    optimizer.step()
    model.count.add_(1)
    assert model.weight.data_ptr() == where
    assert np.array_equal(view, np.arange(4) - 2.0)
    assert all(torch.equal(weight, torch.arange(4.0)) and torch.equal(count, torch.arange(4)) for weight, count in left)
    for weight, _ in left:
        weight.zero_()
    assert np.array_equal(view, np.arange(4) - 2.0)
    assert result is not None


def test_a_copy_reads_the_memory_of_what_it_copies():
    model = Holds(torch.arange(4.0))
    with memory_shared():
        first, second = copied(model), copied(model)
        first(torch.ones(2, 4))
        for three in zip(*map(tensors_of, (model, first, second)), strict=True):
            assert same_memory(three[0], three[1])
            assert same_memory(three[0], three[2])


def test_what_torch_cannot_share_is_copied_once(tmp_path):
    model = Holds(mapped(tmp_path))
    with memory_shared():
        first, second = copied(model), copied(model)
        assert not same_memory(model.weight, first.weight)
        assert same_memory(first.weight, second.weight)
        with torch.no_grad():
            model.weight.add_(1)
        assert torch.equal(copied(model).weight, model.weight)


def test_a_block_within_another_gives_the_memory_back():
    model = Holds(torch.arange(4.0))
    where = model.weight.data_ptr()
    with memory_shared():
        outer = copied(model)
        with memory_shared(), torch.no_grad():
            copied(model).weight.zero_()
            assert torch.equal(copied(model).weight, model.weight)
        assert same_memory(model.weight, outer.weight)
    assert model.weight.data_ptr() == where
    assert torch.equal(outer.weight, torch.arange(4.0))
    assert not same_memory(model.weight, outer.weight)


def test_a_storage_that_gets_other_memory_meanwhile_keeps_it():
    own = torch.arange(4.0)
    with lending() as lent:
        other = copy.deepcopy(own, lent.memo([own]))
        own.share_memory_()
        own.add_(1)
    assert own.is_shared()
    assert torch.equal(own, other + 1)


MADE = [
    lambda: torch.arange(6.0).reshape(2, 3),
    lambda: torch.arange(6.0).reshape(2, 3).t(),
    lambda: torch.arange(9)[::2],
    lambda: torch.ones(1).expand(4),
    lambda: torch.ones(0, 3),
    lambda: torch.tensor(True),
    lambda: torch.ones(3, dtype=torch.bfloat16),
    lambda: torch.ones(3, dtype=torch.complex64).conj(),
    lambda: torch.ones(4).to(torch.float8_e4m3fn),
    lambda: torch.eye(3).to_sparse(),
    lambda: torch.ones(3, device="meta"),
    lambda: torch.from_numpy(np.ones(3)),
    lambda: torch.nn.Parameter(torch.ones(3)[1:]),
]


@pytest.fixture(scope="module")
def few_objects():
    """Make collections quick: what is there already is not walked."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("few_objects")
@given(st.lists(st.tuples(st.sampled_from(range(len(MADE))), st.booleans(), st.integers(0, 2)), max_size=6))
def test_copies_are_deep_copies_whoever_writes(steps):
    """Against `copy.deepcopy`: nothing that is written into a copy is seen elsewhere, and every original stays put."""
    found = []
    with lending() as lent, torch.no_grad():
        for made, again, writes in steps:
            own = MADE[made]()
            others = [copy.deepcopy(own, lent.memo([own])) for _ in range(1 + again)]
            expected = [copy.deepcopy(own) for _ in others]
            strided = own.layout == torch.strided and own.device.type == "cpu"
            found.append((own, own.data_ptr() if strided else 0, copy.deepcopy(own), others, expected))
            if strided and made != 3:  # torch refuses to write into what is expanded
                for each, like in zip(others[:writes], expected[:writes], strict=True):
                    each.data.zero_()
                    like.data.zero_()
    for own, where, before, others, expected in found:
        assert where in {0, own.data_ptr() if where else 0}
        for one, other in [(own, before), *zip(others, expected, strict=True)]:
            assert (one.shape, one.dtype, one.layout) == (other.shape, other.dtype, other.layout)
            if one.device.type == "cpu":
                assert one.to_dense().tolist() == other.to_dense().tolist() if one.is_sparse else _same(one, other)


def _same(one, other):
    return one.stride() == other.stride() and one.tolist() == other.tolist()


@pytest.mark.thorough
def test_nothing_is_left_of_exports_whose_programs_are_dropped():
    def exported():
        model = Holds(torch.arange(4.0))
        export(model, (torch.randn(3, 4),), dynamic_shapes=({0: Dim("n", min=0, max=6)},))
        return weakref.ref(model), weakref.ref(model.weight)

    def held():
        gc.collect()
        objects = gc.get_objects()
        tensors = sum(issubclass(type(each), torch.Tensor) for each in objects)
        modules = sum(issubclass(type(each), torch.nn.Module) for each in objects)
        return tensors, modules

    exported()
    before = held()
    left = [each for _ in range(5) for each in exported()]
    assert held() == before
    assert not any(each() is not None for each in left)
