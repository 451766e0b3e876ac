"""Compare fake tensors by what torch notes of them: kind, sizes, strides, offset and shared storage.

This is the one meaning of *the same tensor* for a call that is run again, for a program's metadata, and for two
programs. An equality that is not known counts as a difference.

Law: a stride may differ only where it reaches no element: its size is at most 1, or the tensor has no elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.terms import ONE
from shapeproof.export.ops.shape_functions import Sizes
from shapeproof.export.shim.storages import kind, storages


def same_shape(mine: torch.Tensor, other: torch.Tensor, sizes: Sizes) -> bool:
    """True if two tensors have the same kind, rank and sizes."""
    return kind(mine) == kind(other) and sizes.alike(mine.shape, other.shape)


def same_layout(mine: torch.Tensor, other: torch.Tensor, sizes: Sizes) -> bool:
    """True if two strided tensors have the same shape and offset, and strides that differ reach no element."""
    return (
        mine.layout == torch.strided
        and same_shape(mine, other, sizes)
        and sizes.equal(mine.storage_offset(), other.storage_offset())
        and (same_strides(mine, other, sizes) or is_empty(mine, sizes))
    )


def same_strides(mine: torch.Tensor, other: torch.Tensor, sizes: Sizes) -> bool:
    """True if the strides of the last dimensions, which both tensors have, agree where the size is not 0 or 1."""
    common = min(mine.dim(), other.dim())
    last = (each[len(each) - common :] for each in (mine.shape, mine.stride(), other.stride()))
    return all(sizes.equal(a, b) or sizes.at_most(size, 1) for size, a, b in zip(*last, strict=True))


def is_empty(tensor: torch.Tensor, sizes: Sizes) -> bool:
    """True if a tensor is known to have no elements."""
    return sizes.known(f.eq(prod(map(sizes.read, tensor.shape), start=ONE), 0))


def same_storage(mine: torch.Tensor, other: torch.Tensor) -> bool:
    """True if two tensors lie in the same storage and are read in the same way."""
    return kind(mine) == kind(other) and bool(storages(mine)) and storages(mine) == storages(other)


def sharing(values: Sequence[Any]) -> list[int | None]:
    """Return for each value the index of the first value in the same storage; None for a value without storage."""
    seen: dict[Any, int] = {}
    return [
        seen.setdefault(found[0], index) if (found := storages(value)) else None for index, value in enumerate(values)
    ]
