"""What is known of the integers in each storage while a model is traced.

Noted by storage and not by tensor: a view sees what its base holds, and whatever is written through any alias takes the
knowledge from all of them. It says nothing of where a span comes from; ops/value_ranges.py does.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from shapeproof.export.ops.call import ANYTHING, Span, span
from shapeproof.export.ops.value_ranges import INTEGRAL, of_dtype
from shapeproof.export.shim.storages import storages


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
        found = self.noted(tensor)
        return found if found.known else _of_constant(tensor) or of_dtype(dtype)

    def __bool__(self) -> bool:
        """Whether anything was noted."""
        return bool(self._noted)

    def noted(self, tensor: torch.Tensor) -> Span:
        """What was noted of a tensor."""
        dtype = str(tensor.dtype)
        found = (self._noted.get(storage, ("", ANYTHING)) for storage in storages(tensor))
        return next((span for noted, span in found if noted == dtype), ANYTHING)

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
