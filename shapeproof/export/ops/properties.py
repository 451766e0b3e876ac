"""Which calls read a property of a tensor that no operator of a graph computes again: strides, offset, gradients.

What the model reads of them is written into the trace as a constant, so inputs must have what the example has.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Any

import torch

STRIDES = "strides"
OFFSET = "the storage offset"
GRADIENT = "requires_grad"

_BY_NAME = {
    "stride": STRIDES,
    "is_contiguous": STRIDES,
    "dim_order": STRIDES,
    "storage_offset": OFFSET,
    "requires_grad": GRADIENT,
}
_READ: dict[Hashable, str] = {
    getattr(member, "__get__", member) if name == "requires_grad" else member: read
    for name, read in _BY_NAME.items()
    if (member := getattr(torch.Tensor, name))
}


_BRANCHING = frozenset({"cond", "while_loop", "scan", "associative_scan"})
"""Functions of torch whose bodies dynamo reads, where no call is seen."""


def read_in_bodies(names: Collection[str]) -> set[str]:
    """The properties that the bodies of a model's torch.cond may read, by the names that its code uses.

    >>> read_in_bodies({"cond", "is_contiguous", "relu"}), read_in_bodies({"stride"})
    ({'strides'}, set())
    """
    if _BRANCHING.isdisjoint(names):
        return set()
    return {read for name, read in _BY_NAME.items() if name in names}


def property_read(func: Any) -> str | None:
    """The property of a tensor that a call of torch reads, if it is one of these.

    >>> property_read(torch.Tensor.is_contiguous), property_read(torch.Tensor.size)
    ('strides', None)
    """
    return _READ.get(func)
