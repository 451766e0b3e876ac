"""Known bounds of the integers in each storage while a model is traced.

Bounds are noted by storage, not by tensor: a view sees its base's elements, and a write through any alias removes the
bounds for all aliases. ops/value_ranges.py derives the bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.weak import WeakIdKeyDictionary

from shapeproof.export.ops.call import ANYTHING, Span, span
from shapeproof.export.ops.value_ranges import INTEGRAL, of_dtype
from shapeproof.export.shim.process.transforms import is_transformed
from shapeproof.export.shim.storages import storage_objects, storages


class Contents:
    """Bounds of integers, by storage; they go with the storage."""

    def __init__(self) -> None:
        self._noted = WeakIdKeyDictionary()  # to a dtype and bounds

    def note(self, operands: Any, results: Sequence[Any], found: Sequence[Span]) -> None:
        """Note the bounds of the elements of an operator's results that share no storage with its operands."""
        aliased = set(storages(operands))
        for result, bounds in zip(results, found, strict=False):
            fresh = isinstance(result, torch.Tensor) and aliased.isdisjoint(storages(result))
            if fresh and bounds.known and str(result.dtype) in INTEGRAL:
                for storage in storage_objects(result):
                    self._noted[storage] = (str(result.dtype), bounds)

    def of(self, tensor: torch.Tensor) -> Span:
        """Return the bounds of a tensor's elements. A storage that is read as another dtype has no noted bounds."""
        dtype = str(tensor.dtype)
        if dtype not in INTEGRAL:
            return ANYTHING
        found = self.noted(tensor)
        return found if found.known else _of_constant(tensor) or of_dtype(dtype)

    def __bool__(self) -> bool:
        """True if anything was noted."""
        return bool(self._noted)

    def noted(self, tensor: torch.Tensor) -> Span:
        """Return the noted bounds of a tensor."""
        dtype = str(tensor.dtype)
        found = (self._noted.get(storage, ("", ANYTHING)) for storage in storage_objects(tensor))
        return next((span for noted, span in found if noted == dtype), ANYTHING)

    def forget(self, values: list[Any]) -> None:
        """Forget the bounds of tensors that were mutated."""
        for storage in storage_objects(values):
            self._noted.pop(storage, None)


def _of_constant(tensor: torch.Tensor) -> Span | None:
    """Return the bounds of a constant that the model writes down: `torch.tensor([1, 2])`."""
    known = tensor if type(tensor) is torch.Tensor else getattr(tensor, "constant", None)
    if known is None or is_transformed(known) or known.numel() == 0:
        return None
    return span(int(known.min()), int(known.max()))
