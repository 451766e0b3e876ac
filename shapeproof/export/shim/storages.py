"""Identities of tensor storages, as weak references, and how often tensors were written into."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef


def storages(value: Any) -> list[StorageWeakRef]:
    """Return the identities of the storages of a tensor, or of the tensors in nested lists, in order."""
    found = map(storage_of, _tensors(value))
    return [storage for storage in found if storage is not None]


def is_wrapped(value: Any) -> bool:
    """True if the value is a tensor wrapped by torch.vmap or torch.func.grad; it has no meaning outside of them."""
    return isinstance(value, torch.Tensor) and value.layout == torch.strided and storage_of(value) is None


def storage_of(tensor: torch.Tensor) -> StorageWeakRef | None:
    """Return the identity of a tensor's storage; None if the tensor has none, as inside torch.vmap."""
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


def writes_into(module: torch.nn.Module) -> list[int] | None:
    """Return how often each tensor of a module was written into; None in inference mode, where torch does not count."""
    held = (each for part in module.modules() for each in vars(part).values())
    state = itertools.chain(module.parameters(), module.buffers(), held)
    tensors = [each for each in state if isinstance(each, torch.Tensor)]
    return None if any(each.is_inference() for each in tensors) else [each._version for each in tensors]
