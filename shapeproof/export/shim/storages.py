"""Tensor storages: their identities, as weak references, their writes, and copies that are made when one is written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef


def storages(value: Any) -> list[StorageWeakRef]:
    """Return the identities of the storages of a tensor, or of the tensors in nested lists, in order."""
    return list(map(StorageWeakRef, storage_objects(value)))


def storage_objects(value: Any) -> list[torch.UntypedStorage]:
    """Return these storages themselves. A weak reference keeps the storage's symbolic size, and so the whole trace."""
    found = map(_storage, _tensors(value))
    return [storage for storage in found if storage is not None]


def is_wrapped(value: Any) -> bool:
    """True if the value is a tensor wrapped by torch.vmap or torch.func.grad; it has no meaning outside of them."""
    return isinstance(value, torch.Tensor) and value.layout == torch.strided and storage_of(value) is None


def storage_of(tensor: torch.Tensor) -> StorageWeakRef | None:
    """Return the identity of a tensor's storage; None if the tensor has none, as inside torch.vmap."""
    storage = _storage(tensor)
    return None if storage is None else StorageWeakRef(storage)


def _storage(tensor: torch.Tensor) -> torch.UntypedStorage | None:
    try:
        return tensor.untyped_storage()
    except NotImplementedError:
        return None


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor) and value.layout == torch.strided:
        yield value
    elif isinstance(value, tuple | list):
        for each in value:
            yield from _tensors(each)


def writes(tensor: torch.Tensor) -> int | None:
    """Return how often a tensor, or a view of it, was written into; None in inference mode, which counts no writes."""
    return None if tensor.is_inference() else tensor._version


def copied_when_written(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy that shares the tensor's memory until one of the two is written into.

    The tensor's own storage changes its kind, so that the next write into it may move it.
    """
    return torch._lazy_clone(tensor)


def is_copied_when_written(tensor: torch.Tensor) -> bool:
    """True if the tensor is such a copy, or has one, and has not been written into since."""
    return bool(torch._C._is_cow_tensor(tensor))  # type: ignore[attr-defined]


def same_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    """True if the first elements of two tensors are one and the same; copies that nobody has written into share them.

    Unlike `data_ptr`, this copies nothing.
    """
    starts = [(torch._C._data_address(each), each.storage_offset()) for each in (one, other)]  # type: ignore[attr-defined]
    return starts[0] == starts[1]


def holds_floats(tensor: torch.Tensor) -> bool:
    """True for a tensor of torch's own classes whose elements are floats, by their bits in the CPU's memory."""
    own = type(tensor) in {torch.Tensor, torch.nn.Parameter} and tensor.device.type == "cpu"
    dense = own and tensor.layout == torch.strided and storage_of(tensor) is not None
    return dense and tensor.is_floating_point() and not tensor.is_neg()


def kind(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Return what distinguishes tensors of the same layout: how their elements are read."""
    return tensor.dtype, tensor.device, tensor.layout, tensor.is_conj(), tensor.is_neg()
