"""Tells the storages of tensors apart, by weak references."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef


def storages(value: Any) -> list[StorageWeakRef]:
    """What tells the storages apart of a tensor, or of those in nested lists, in order."""
    found = map(storage_of, _tensors(value))
    return [storage for storage in found if storage is not None]


def is_wrapped(value: Any) -> bool:
    """Whether it is a tensor as torch.vmap and torch.func.grad see it, which is nothing outside of them."""
    return isinstance(value, torch.Tensor) and value.layout == torch.strided and storage_of(value) is None


def storage_of(tensor: torch.Tensor) -> StorageWeakRef | None:
    """What tells the storage of a tensor apart; None where it has none of its own, as inside torch.vmap."""
    try:
        return StorageWeakRef(tensor.untyped_storage())
    except NotImplementedError:
        return None


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor) and value.layout == torch.strided:
        yield value
    elif isinstance(value, tuple | list):
        for each in value:
            yield from _tensors(each)
