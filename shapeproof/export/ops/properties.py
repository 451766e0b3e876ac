"""Which calls read a property of a tensor that no operator of a graph computes again: strides, offset, gradients.

What the model reads of them is written into the trace as a constant, so inputs must have what the example has.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import torch

STRIDES = "strides"
OFFSET = "the storage offset"
GRADIENT = "requires_grad"

_READ: dict[Hashable, str] = {
    torch.Tensor.stride: STRIDES,
    torch.Tensor.is_contiguous: STRIDES,
    torch.Tensor.dim_order: STRIDES,
    torch.Tensor.storage_offset: OFFSET,
    torch.Tensor.requires_grad.__get__: GRADIENT,  # type: ignore[attr-defined]
}


def property_read(func: Any) -> str | None:
    """The property of a tensor that a call of torch reads, if it is one of these.

    >>> property_read(torch.Tensor.is_contiguous), property_read(torch.Tensor.size)
    ('strides', None)
    """
    return _READ.get(func)
