"""Read a call of an operator for output_sizes.py and value_ranges.py: tensors as shapes, sizes as terms."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from shapeproof.constraints.terms import Term
from shapeproof.export.ops import schemas
from shapeproof.export.ops.call import Call, Shape, Span
from shapeproof.export.ops.table import known_of


@dataclass(frozen=True, slots=True)
class Operands:
    """Reads operands.

    Attributes:
        read: returns the term of a size.
        span: returns the bounds of the integers in a tensor.
    """

    read: Callable[[Any], Term]
    span: Callable[[torch.Tensor], Span]

    def call(self, func: Any, args: Any, kwargs: Mapping[str, Any], results: Sequence[Any]) -> Call:
        """Return an operator, its arguments by name, and its results; a view's operand is read with its layout."""
        value = functools.partial(self._value, placed=known_of(func).view is not None)
        arguments = {name: value(each) for name, each in schemas.by_name(func, args, kwargs).items()}
        return Call(str(func), arguments, tuple(map(value, results)))

    def _value(self, value: Any, *, placed: bool = False) -> Any:
        if isinstance(value, torch.Tensor):
            return self._shape(value, placed=placed) if value.layout == torch.strided else value
        if isinstance(value, int | torch.SymInt) and not isinstance(value, bool):
            return self.read(value)
        return tuple(map(self._value, value)) if isinstance(value, tuple | list) else value

    def _shape(self, tensor: torch.Tensor, *, placed: bool) -> Shape:
        found = Shape(tuple(map(self.read, tensor.shape)), str(tensor.dtype), self.span(tensor))
        if not placed:
            return found
        return replace(found, strides=tuple(map(self.read, tensor.stride())), offset=self.read(tensor.storage_offset()))
