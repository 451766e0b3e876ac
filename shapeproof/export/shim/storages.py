"""Tensor storages: their identities, as weak references, their writes, and copies that are made when one is written.

Also strides of dense tensors for any order of their dimensions; fake tensors with given sizes and strides.

Torch finds out about each fake tensor what is known here, so these are made without asking it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, in_kernel_invocation_manager
from torch.multiprocessing.reductions import StorageWeakRef

from shapeproof.constraints.errors import UsageError


def storages(value: Any) -> list[StorageWeakRef]:
    """Return the identities of the storages of a tensor, or of the tensors in nested lists, in order."""
    return list(map(StorageWeakRef, storage_objects(value)))


def storage_objects(value: Any) -> list[torch.UntypedStorage]:
    """Return these storages themselves. A weak reference keeps the storage's symbolic size, and so the whole trace."""
    found = map(_storage, strided_tensors(value))
    return [storage for storage in found if storage is not None]


def is_wrapped(value: Any) -> bool:
    """True if the value is a tensor wrapped by torch.vmap or torch.func.grad; it has no meaning outside of them."""
    return isinstance(value, torch.Tensor) and value.layout == torch.strided and storage_of(value) is None


def storage_of(tensor: torch.Tensor) -> StorageWeakRef | None:
    """Return the identity of a tensor's storage; None if the tensor has none, as inside torch.vmap."""
    storage = _storage(tensor)
    return None if storage is None else StorageWeakRef(storage)


_untyped_storage = torch.Tensor.untyped_storage
"""As torch has it: it is replaced where the reads of a model are told."""


def _storage(tensor: torch.Tensor) -> torch.UntypedStorage | None:
    try:
        with torch._C.DisableTorchFunction():  # a function mode would call the method that `torch.Tensor` has now
            return _untyped_storage(tensor)
    except NotImplementedError:
        return None


def strided_tensors(value: Any) -> Iterator[torch.Tensor]:
    """Yield a tensor, or the tensors in nested lists, that may have a storage."""
    if isinstance(value, torch.Tensor) and value.layout == torch.strided:
        yield value
    elif isinstance(value, tuple | list):
        for each in value:
            yield from strided_tensors(each)


def identity(storage: torch.UntypedStorage) -> int:
    """Return the key under which the memo of `copy.deepcopy` holds the copy of a storage, in its entry "torch"."""
    return int(storage._cdata)


def bytes_of(storage: torch.UntypedStorage) -> torch.Tensor:
    """Return a tensor over all bytes of a storage."""
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def is_own(tensor: torch.Tensor) -> bool:
    """True for a strided tensor of torch's own classes."""
    return type(tensor) in {torch.Tensor, torch.nn.Parameter} and tensor.layout == torch.strided


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
    """True if the first elements of two tensors are one and the same, as in copies that nobody has written into."""
    starts = [(addresses(each).start, each.storage_offset()) for each in (one, other)]
    return starts[0] == starts[1]


def addresses(tensor: torch.Tensor) -> range:
    """Return the addresses of the bytes in the storage of a tensor. Unlike `data_ptr`, this copies nothing.

    >>> whole = torch.arange(4)
    >>> addresses(whole[2:]) == addresses(whole) == range(whole.data_ptr(), whole.data_ptr() + 32)
    True
    """
    start = torch._C._data_address(tensor)  # type: ignore[attr-defined]
    return range(start, start + sum(each.nbytes() for each in storage_objects(tensor)))


def is_fake(tensor: torch.Tensor) -> bool:
    """True for a tensor of torch's that has sizes, a dtype and a device, and no elements."""
    return isinstance(tensor, FakeTensor)


def holds_data(tensor: torch.Tensor) -> bool:
    """True if the elements of a tensor can be read: it is not fake, and not on the device `meta`.

    >>> real = torch.ones(2)
    >>> [holds_data(each) for each in (real, real.to("meta"), FakeTensorMode().from_tensor(real))]
    [True, False, False]
    """
    return not (is_fake(tensor) or tensor.is_meta)


def empty(sizes: Sequence[int], strides: Sequence[int], like: torch.Tensor) -> torch.Tensor:
    """Return an uninitialised tensor on the device of another, and as fake as that one."""
    with like.fake_mode if isinstance(like, FakeTensor) else contextlib.nullcontext():
        return torch.empty_strided(sizes, strides, dtype=like.dtype, device=like.device)


def with_plain_sizes(value: Any) -> Any:
    """Return a fake tensor of plain sizes, its hints, in place of one of symbolic sizes; any other value as it is.

    Raises:
        UsageError: a size has no hint.
    """
    if not isinstance(value, FakeTensor) or all(isinstance(each, int) for each in (*value.shape, *value.stride())):
        return value
    sizes, strides = (
        [each if isinstance(each, int) else each.node.hint for each in by] for by in (value.shape, value.stride())
    )
    if None in (*sizes, *strides):
        raise UsageError(f"a fake input has sizes {list(value.shape)}, expected numbers or sizes of an example")
    return empty(sizes, strides, value).requires_grad_(value.requires_grad)


def kind(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Return what distinguishes tensors of the same layout: how their elements are read."""
    return tensor.dtype, tensor.device, tensor.layout, tensor.is_conj(), tensor.is_neg()


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
