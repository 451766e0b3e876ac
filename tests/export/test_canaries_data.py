"""What the reading of data relies on in torch's private parts, one small test for each fact; see test_canaries.py."""

from __future__ import annotations

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
