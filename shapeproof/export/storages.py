"""What is known of the integers in each storage while a model is traced.

Noted by storage and not by tensor: a view sees what its base holds, and whatever is written through any alias takes the
knowledge from all of them. It says nothing of where a span comes from; contents.py does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from shapeproof.export.calls import ANYTHING, Span, span
from shapeproof.export.contents import INTEGRAL, of_dtype


class Contents:
    """Where the integers lie, by storage. A weak reference to a storage keeps its address from being used again."""

    def __init__(self) -> None:
        self._noted: dict[StorageWeakRef, tuple[str, Span]] = {}

    def note(self, tensor: torch.Tensor, found: Span) -> None:
        """Note of a fresh tensor where its elements lie."""
        if found.known and str(tensor.dtype) in INTEGRAL:
            for storage in storages(tensor):
                self._noted[storage] = (str(tensor.dtype), found)

    def of(self, tensor: torch.Tensor) -> Span:
        """Where the elements of a tensor lie. A storage read as another dtype holds other numbers."""
        dtype = str(tensor.dtype)
        if dtype not in INTEGRAL:
            return ANYTHING
        for storage in storages(tensor):
            noted, found = self._noted.get(storage, ("", ANYTHING))
            if noted == dtype:
                return found
        return _of_constant(tensor) or of_dtype(dtype)

    def forget(self, values: list[Any]) -> None:
        """Something was written into these tensors."""
        for storage in storages(values):
            self._noted.pop(storage, None)


def _of_constant(tensor: torch.Tensor) -> Span | None:
    """Where the elements of a tensor lie that was written down in the model: `torch.tensor([1, 2])`."""
    known = tensor if type(tensor) is torch.Tensor else getattr(tensor, "constant", None)
    if known is None or known.numel() == 0:
        return None
    return span(int(known.min()), int(known.max()))


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
