"""What the reading of data relies on in torch's private parts, one small test for each fact; see test_canaries.py."""

from __future__ import annotations

import copy
import importlib
import inspect

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.multiprocessing.reductions import StorageWeakRef


def fake_mode():
    return FakeTensorMode(shape_env=ShapeEnv(allow_scalar_outputs=True, allow_dynamic_output_shape_ops=True))


def test_a_schema_names_arguments_their_defaults_and_what_is_written():
    assert isinstance(torch.ops.aten.add_.Tensor, torch._ops.OpOverload)
    schema = torch.ops.aten.add_.Tensor._schema
    assert [(a.name, a.has_default_value()) for a in schema.arguments] == [
        ("self", False),
        ("other", False),
        ("alpha", True),
    ]
    assert schema.is_mutable
    assert [a.alias_info is not None and a.alias_info.is_write for a in schema.arguments] == [True, False, False]
    assert not torch.ops.aten.add.Tensor._schema.is_mutable


def test_every_operator_goes_through_dispatch():
    """In-place ones, views and operators that others are made of, too."""
    mode, seen = fake_mode(), []
    run = mode.dispatch

    def dispatch(func, types, args=(), kwargs=None):
        seen.append(str(func))
        return run(func, types, args, kwargs)

    mode.dispatch = dispatch
    with mode:
        x = torch.zeros(4, dtype=torch.int64)
        x[:2].add_(1)
        x[x > 0]
    assert {"aten.zeros.default", "aten.slice.Tensor", "aten.add_.Tensor", "aten.index.Tensor"} <= set(seen)
    assert "aten.nonzero.default" in seen


def test_a_view_shares_its_storage_and_a_copy_does_not():
    with fake_mode():
        x = torch.zeros(4, dtype=torch.int64)
        same, other = StorageWeakRef(x[1:].untyped_storage()), StorageWeakRef(x.clone().untyped_storage())
        assert StorageWeakRef(x.untyped_storage()) == same
        assert other != same
        assert hash(StorageWeakRef(x.untyped_storage())) == hash(same)


def test_a_constant_is_kept_until_it_is_written_into():
    with fake_mode():
        x = torch.tensor(5)
        assert isinstance(x.constant, torch.Tensor)
        x.add_(torch.randint(3, ()))
        assert x.constant is None


def test_where_branches_differ_the_two_sizes_have_these_names():
    source = inspect.getsource(importlib.import_module("torch._higher_order_ops.cond")._merge_output)
    assert "for s0, s1 in zip(a.size(), b.size()):" in source
    assert "constrain_symbol_range(new_size.node.expr, *min_max(s0, s1))" in source


def test_bodies_are_run_by_the_files_of_higher_order_operators():
    """So that a frame of theirs is on the stack."""
    seen = []

    def branch(x):
        frame = inspect.currentframe()
        while frame is not None:
            seen.append(frame.f_code.co_filename)
            frame = frame.f_back
        return x.sin()

    with fake_mode():
        x = torch.ones(3)
        torch.ops.higher_order.cond(x.sum() > 0, branch, branch, (x,))
    assert any("_higher_order_ops" in file for file in seen)


def test_a_torch_check_holds_its_sentence_in_a_frame():
    parameters = inspect.signature(torch._check_with).parameters
    assert list(parameters) == ["error_type", "cond", "message"]


def test_a_mode_on_data_tells_what_a_number_is():
    class Told(ShapeEnv):
        told: dict = {}  # noqa: RUF012

        def set_real_tensor_prop_unbacked_vals(self, k, v):
            self.told[str(k)] = v
            super().set_real_tensor_prop_unbacked_vals(k, v)

    with torch._functorch.config.patch(fake_tensor_propagate_real_tensors=True):
        mode = FakeTensorMode(shape_env=Told(allow_scalar_outputs=True))
    fake = mode.from_tensor(torch.tensor(7))
    with mode:
        fake.item()
    assert list(Told.told.values()) == [7]


def test_a_tensor_remembers_that_it_is_marked():
    x = torch.ones(3)
    torch._dynamo.decorators.mark_unbacked(x, 0, min=1, max=9)
    assert 0 in x._dynamo_unbacked_indices
    assert x._dynamo_unbacked_bounds[0] == (1, 9)


def _bytes(storage):
    return torch.empty(0, dtype=torch.uint8).set_(storage)


def _address(tensor):
    return torch._C._data_address(tensor)


def test_a_lazy_clone_shares_memory_until_one_is_written_into():
    """lending.py relies on it. What reads copies nothing, or copies of a large model would cost what they did."""
    own = torch.randn(4, 4)
    clone = torch._lazy_clone(own)
    torch.nn.functional.linear(torch.randn(2, 4), clone)
    torch.nn.functional.embedding(torch.tensor([1, 2]), clone)
    torch.nn.functional.layer_norm(torch.randn(2, 4), (4,), clone[0], clone[1])
    torch.nn.functional.conv1d(torch.randn(1, 4, 3), clone[:, :, None])
    assert torch._C._is_cow_tensor(own)
    assert torch._C._is_cow_tensor(clone)
    assert _address(own) == _address(clone[1:].t())
    clone.data.zero_()
    assert not torch._C._is_cow_tensor(clone)
    assert _address(own) != _address(clone)
    assert own.any()


@pytest.mark.parametrize(
    "touch", [torch.Tensor.data_ptr, torch.Tensor.numpy, torch.Tensor.__dlpack__, torch.Tensor.zero_]
)
def test_a_storage_that_is_lazily_cloned_moves_itself(touch):
    """Why lending.py lets another storage own the memory: NumPy's array would stay behind, in memory that is freed."""
    own = torch.ones(4)
    view = own.numpy()
    clone = torch._lazy_clone(own)
    touch(own)
    own.add_(1)
    assert _address(own) != _address(clone)
    assert view.tolist() == [1, 1, 1, 1]


def test_the_last_of_lazy_clones_keeps_the_memory():
    own = torch.ones(4)
    where = own.data_ptr()
    clone = torch._lazy_clone(own)
    assert torch._C._is_cow_tensor(own)
    del clone
    assert own.add_(1).data_ptr() == where
    assert not torch._C._is_cow_tensor(own)


def test_storages_swap_their_memory():
    """lending.py relies on it: an empty one takes memory over, and can be cloned lazily if the first could."""
    own, owner = torch.arange(4), torch.UntypedStorage(0)
    storage, where = own.untyped_storage(), own.data_ptr()
    pointing = torch._C._construct_storage_from_data_pointer(where, storage.device, storage.nbytes())
    with pytest.raises(RuntimeError):
        torch._lazy_clone(_bytes(pointing))
    storage._swap_data_ptr_(pointing)
    owner._swap_data_ptr_(pointing)
    clone = torch._lazy_clone(_bytes(owner))
    assert (own.data_ptr(), _address(clone), owner.nbytes(), pointing.nbytes()) == (where, where, storage.nbytes(), 0)
    assert not torch._C._is_cow_tensor(own)
    del clone
    owner._swap_data_ptr_(storage)
    assert own.data_ptr() == where
    assert own.tolist() == [0, 1, 2, 3]
    assert own.resize_(64).numel() == 64


def test_torch_clones_no_memory_lazily_that_is_not_its_own():
    """lending.py copies it: of NumPy, of a file, shared with processes."""
    own = (torch.from_numpy(np.ones(4)), torch.ones(4).share_memory_(), torch.from_dlpack(torch.ones(4)))
    for each in own:
        with pytest.raises(RuntimeError):
            torch._lazy_clone(each)


def test_a_storage_is_found_again_by_a_weak_reference():
    """lending.py relies on it."""
    own = torch.ones(4)
    reference = StorageWeakRef(own.untyped_storage())
    assert torch.UntypedStorage._new_with_weak_ptr(reference.cdata).data_ptr() == own.data_ptr()
    del own
    assert torch.UntypedStorage._new_with_weak_ptr(reference.cdata) is None


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_deep_copy_of_tensors_takes_the_copies_of_storages_from_its_memo():
    """lending.py relies on it: quantized tensors and views too."""
    own = torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.qint8)
    for each in (torch.arange(4)[1:], own):
        storage = each.untyped_storage()
        other = copy.deepcopy(each, {"torch": {storage._cdata: storage}})
        assert other is not each
        assert _address(other) == _address(each)


def test_a_parameter_copies_its_data_and_whether_it_requires_gradients():
    """forms.py relies on it: no gradient, no attribute."""
    own = torch.nn.Parameter(torch.randn(4), requires_grad=True)
    own.sum().backward()
    own.note = "not copied"
    other = copy.deepcopy(own)
    assert (other.grad, other.requires_grad, hasattr(other, "note")) == (None, True, False)
