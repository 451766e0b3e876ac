"""The strides of dense tensors with their own memory, for any order of their dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode


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
