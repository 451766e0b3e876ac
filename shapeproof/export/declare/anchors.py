"""The points of further inputs (AdditionalInputs), which the domain must keep as it keeps the example.

A further input supplies other values for the example's symbols and must otherwise be like the example: another dtype,
layout, device or rank is refused, since no program for the example takes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from shapeproof.constraints.errors import UsageError
from shapeproof.export.shim.inputs.binding import name_leaves

if TYPE_CHECKING:
    from shapeproof.export.declare.reading import Leaf

Given = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and keyword arguments of a call."""


def further_anchors(mod: torch.nn.Module, leaves: Sequence[Leaf], others: Sequence[Given]) -> list[dict[str, int]]:
    """Return the points of further inputs, which are like the example."""
    points = []
    for args, kwargs in others:
        values = {source: value for source, _, value in name_leaves(mod, args, kwargs)}
        points.append({name: size for leaf in leaves for name, size in _sizes(leaf, values).items()})
    return points


def _sizes(leaf: Leaf, values: Mapping[str, Any]) -> dict[str, int]:
    value = values[leaf.source]
    sizes = value.shape if isinstance(value, torch.Tensor) else [value]
    return {name: size for term, size in zip(leaf.terms, sizes, strict=False) for name in term.symbols}


def check_alike(mod: torch.nn.Module, examples: Sequence[Leaf], others: Sequence[Given]) -> None:
    """Check that further inputs differ from the example in sizes and ints alone.

    Raises:
        UsageError: an input is not like the example; the message names it.
    """
    for number, (args, kwargs) in enumerate(others, 1):
        try:
            values = {source: (name, value) for source, name, value in name_leaves(mod, args, kwargs)}
        except UsageError as error:
            raise UsageError(f"additional input {number}: {error}") from None
        known = {leaf.source: leaf for leaf in examples}
        for source in (*known, *values):
            if source not in known or source not in values:
                has, name = ("has", values[source][0]) if source in values else ("has no", known[source].name)
                raise UsageError(f"additional input {number} {has} `{name}`, unlike the example")
        for leaf in examples:
            had, wanted = _traits(values[leaf.source][1]), _traits(leaf.example)
            for what, found in had.items():
                if found != wanted[what]:
                    shown = repr if what == "value" else str
                    said = f"`{leaf.name}` of {what} {shown(found)}, the example {shown(wanted[what])}"
                    raise UsageError(f"additional input {number} has {said}")


def _traits(value: Any) -> dict[str, Any]:
    """Return what may not differ from the example, by its name; a nested tensor has no sizes to read."""
    if isinstance(value, torch.Tensor):
        layout = "nested" if value.is_nested else value.layout
        rank = None if value.is_nested else value.dim()
        return {"type": "Tensor", "dtype": value.dtype, "layout": layout, "device": value.device, "rank": rank}
    return {"type": type(value).__name__} | ({} if type(value) is int else {"value": value})
