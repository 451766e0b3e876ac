"""The points that the domain must keep: of the example, and of each further input (AdditionalInputs).

A further input supplies other values for the example's symbols and must otherwise be like the example: another dtype,
layout or device is refused, since no program for the example takes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from shapeproof.constraints.errors import UsageError
from shapeproof.export.shim.inputs.binding import name_leaves

if TYPE_CHECKING:
    from shapeproof.export.declare.inputs import Leaf

Given = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and keyword arguments of a call."""


def anchors(
    mod: torch.nn.Module, leaves: Sequence[Leaf], example: dict[str, int], others: Sequence[Given]
) -> tuple[dict[str, int], ...]:
    """Return the point of the example, then those of the others.

    Raises:
        UsageError: an input is not like the example; the message names it.
    """
    points = [example]
    for number, (args, kwargs) in enumerate(others, 1):
        values = {source: value for source, _, value in name_leaves(mod, args, kwargs)}
        points.append({})
        for leaf in leaves:
            _check_alike(leaf, values[leaf.source], number)
            points[-1] |= _sizes(leaf, values)
    return tuple(points)


def _sizes(leaf: Leaf, values: Mapping[str, Any]) -> dict[str, int]:
    value = values[leaf.source]
    sizes = value.shape if isinstance(value, torch.Tensor) else [value]
    return {name: size for term, size in zip(leaf.terms, sizes, strict=False) for name in term.symbols}


def _check_alike(leaf: Leaf, value: Any, number: int) -> None:
    if not isinstance(value, torch.Tensor):
        return
    for what in ("dtype", "layout", "device"):
        wanted, had = getattr(leaf.example, what), getattr(value, what)
        if wanted != had:
            raise UsageError(f"additional input {number} has `{leaf.name}` of {what} {had}, the example {wanted}")
