"""Strides of dense tensors for any order of their dimensions; fake tensors with given sizes and strides.

Torch finds out about each fake tensor what is known here, so these are made without asking it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, in_kernel_invocation_manager


def memory_order(tensor: torch.Tensor) -> tuple[int, ...]:
    """Return the dimensions of a tensor, the outermost in memory first.

    >>> memory_order(torch.ones(3, 4)), memory_order(torch.ones(3, 4).t())
    ((0, 1), (1, 0))
    """
    dims = range(tensor.dim())
    if tensor.is_contiguous():
        return tuple(dims)
    return tuple(sorted(dims, key=lambda dim: (tensor.stride(dim), tensor.shape[dim] != 1), reverse=True))


def dense_strides(order: Sequence[int], sizes: Sequence[Any]) -> tuple[Any, ...]:
    """Return the strides of a dense tensor whose dimensions lie in memory in this order.

    >>> dense_strides((1, 0), (4, 3)), dense_strides((0, 1), (4, 0))
    ((1, 4), (1, 1))
    """
    strides = [1] * len(sizes)
    step = 1
    for dim in reversed(order):
        strides[dim] = step
        step *= max(1, sizes[dim])
    return tuple(strides)


def restrided(tensor: FakeTensor, sizes: Sequence[Any], strides: Sequence[Any], offset: Any) -> Any:
    """Return a fake tensor over the same storage, with its sizes, strides and offset written in another way."""
    operator = torch.ops.aten.as_strided.default
    return FakeTensorMode.dispatch(tensor.fake_mode, operator, (), (tensor, list(sizes), list(strides), offset), {})


def fresh(
    mode: FakeTensorMode, sizes: Sequence[Any], strides: Sequence[Any] | None, dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    """Return a fake tensor with its own storage; without strides it is contiguous, row by row."""
    with in_kernel_invocation_manager(mode):
        if strides is None:
            made = torch.empty(sizes, dtype=dtype, device="meta")
        else:
            made = torch.empty_strided(sizes, strides, dtype=dtype, device="meta")
    return FakeTensor(mode, made, device)


def view_of(tensor: FakeTensor, sizes: Sequence[Any], strides: Sequence[Any], offset: Any) -> torch.Tensor:
    """Return a fake tensor over the same storage, where torch's dispatcher asks the fake mode for a view."""
    mode = tensor.fake_mode
    with in_kernel_invocation_manager(mode):
        made = torch.ops.aten.as_strided.default(tensor, sizes, strides, offset)
    return FakeTensor(mode, made, tensor.fake_device)
