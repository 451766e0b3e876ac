"""Calls at the bounds of their sizes: operands with the counts of their dims, and masks of valid elements.

At the bounds, a size from data becomes its bound with a count beside it: the first `count` rows are valid, the others
hold arbitrary values. Each operator that would mix valid rows with others has a form (masked_rows.py,
masked_values.py, masked_losses.py), its in-place variant, too. *Law* of each form, at every count: the valid rows of
its result are the operator's result on the valid rows of its operands; where the operator raises, an assertion in the
graph raises. A bounded program may contain only operators with a form, or with a rule that they keep rows apart
(row_by_row.py). No code here is specific to an operator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

Tensor = torch.Tensor


@dataclass(frozen=True)
class Operand:
    """A tensor at its bounds, with the count of each dim that varies."""

    value: Tensor
    dims: Mapping[int, Tensor] = field(default_factory=dict)


class Refused(Exception):
    """A call without a form; the text says why."""


@dataclass(frozen=True)
class Given:
    """A call at its bounds: its operands, and upper bounds of its results' sizes.

    Attributes:
        operator: the operator; of one that writes in place, the operator that returns the result.
        arguments: by name; a tensor is an Operand, a number that varies is a tensor.
        limits: for each result, the bounds of its sizes.
        define: records the count of a dim of the first result.
    """

    operator: Callable[..., Any]
    arguments: Mapping[str, Any]
    limits: Sequence[tuple[int, ...]]
    define: Callable[[int, Tensor], None]

    def __getitem__(self, name: str) -> Any:
        return self.arguments.get(name)

    def tensor(self, name: str) -> Operand:
        """Return a tensor argument."""
        found = self.arguments.get(name)
        if not isinstance(found, Operand):
            raise Refused(f"its {name} is no tensor")
        return found

    def fixed(self, name: str) -> Tensor:
        """Return a tensor argument that does not vary."""
        found = self.tensor(name)
        if found.dims:
            raise Refused(f"its {name} has a size from data")
        return found.value

    def dims(self, operand: Operand) -> list[int]:
        """Return the dims of an operand that the call names; all dims if it names none."""
        return dims_of(self["dim"], operand.value.dim())

    def run(self, /, **changed: Any) -> Any:
        """Return what the operator gives for these arguments; those not changed have 0 for their invalid elements."""
        kept = {name: each for name, each in self.arguments.items() if name not in changed}
        masked = {name: filled(each, 0) if isinstance(each, Operand) else each for name, each in kept.items()}
        return self.operator(**masked, **changed)


Forms = Mapping[str, Callable[[Given], Any]]
"""The form of each kind of operators (ops/table.py)."""


def rows_of(operand: Operand, dim: int) -> Tensor:
    """Return a mask of the valid rows along a dim."""
    places = torch.arange(operand.value.shape[dim], device=operand.value.device)
    return places < operand.dims[dim]


def meant(operand: Operand, dims: Sequence[int] | None = None) -> Tensor | None:
    """Return a mask of the valid elements that broadcasts to the tensor; None if all are valid."""
    found: Tensor | None = None
    for dim in operand.dims if dims is None else dims:
        if dim in operand.dims:
            shape = [-1 if other == dim else 1 for other in range(operand.value.dim())]
            mask = rows_of(operand, dim).view(shape)
            found = mask if found is None else found & mask
    return found


def filled(operand: Operand, value: float, dims: Sequence[int] | None = None) -> Tensor:
    """Return the tensor with its invalid elements replaced by a number."""
    mask = meant(operand, dims)
    return operand.value if mask is None else operand.value.masked_fill(~mask, value)


def broadcast_dims(operands: Sequence[Operand]) -> dict[int, Tensor]:
    """Return the counts of the dims of operands that are broadcast together; each count is one tensor."""
    rank = max(each.value.dim() for each in operands)
    found: dict[int, Tensor] = {}
    for each in operands:
        for dim, count in each.dims.items():
            if found.setdefault(dim - each.value.dim(), count) is not count:
                raise Refused("its operands have several sizes from data")
    for each in operands:
        sizes = {dim - each.value.dim(): size for dim, size in enumerate(each.value.shape) if dim not in each.dims}
        if any(sizes.get(dim, 1) != 1 for dim in found):
            raise Refused("an operand has another size than the others, which have one from data")
    return {dim + rank: count for dim, count in found.items()}


def number_of(operand: Operand, dims: Sequence[int] | None = None) -> Tensor | int:
    """Return how many valid elements a tensor has along some dims."""
    sizes = operand.value.shape
    return math.prod(operand.dims.get(dim, sizes[dim]) for dim in (range(len(sizes)) if dims is None else dims))


def wide(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype in which torch adds: float32 for 16 bits, which are rounded once, at the end."""
    return torch.float32 if dtype in {torch.float16, torch.bfloat16} else dtype


def dims_of(value: Any, rank: int) -> list[int]:
    """Return the dims that an argument names; all dims if it names none."""
    if value is None or value in ((), []):
        return list(range(rank))
    return [each % rank for each in (value if isinstance(value, tuple | list) else (value,))]


def valid_first(valid: Tensor, dim: int = 0) -> Tensor:
    """Return the order that puts valid rows along a dim first, both groups in their old order."""
    return (~valid).to(torch.uint8).argsort(dim=dim, stable=True)


def positions(condition: Tensor, limit: int) -> Tensor:
    """Return the indices of true elements, one row each, padded with zeros to `limit` rows."""
    found: Tensor = torch.nonzero_static(condition, size=limit, fill_value=0)
    return found
