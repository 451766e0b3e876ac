"""What the reading of data relies on in torch's private parts, one small test for each fact; see test_canaries.py."""

from __future__ import annotations

import copy
import importlib
import inspect

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


def test_a_lazy_clone_shares_memory_until_one_is_written_into():
    """forms.py relies on it. What reads copies nothing, or copies of a large model would cost what they did."""
    own = torch.randn(4, 4)
    clone = torch._lazy_clone(own)
    torch.nn.functional.linear(torch.randn(2, 4), clone)
    assert torch._C._is_cow_tensor(own)
    assert torch._C._is_cow_tensor(clone)
    assert torch._C._data_address(own) == torch._C._data_address(clone[1:].t())
    clone.data.zero_()
    assert not torch._C._is_cow_tensor(clone)
    assert torch._C._data_address(own) != torch._C._data_address(clone)
    assert own.any()


def test_a_parameter_copies_its_data_and_whether_it_requires_gradients():
    """forms.py relies on it: no gradient, no attribute, dense memory with strides in the same order."""
    own = torch.nn.Parameter(torch.randn(4, 6)[:, ::2].t(), requires_grad=True)
    own.sum().backward()
    own.note = "not copied"
    other = copy.deepcopy(own)
    assert (other.grad, other.requires_grad, hasattr(other, "note")) == (None, True, False)
    assert other.stride() == own.data.clone(memory_format=torch.preserve_format).stride()
