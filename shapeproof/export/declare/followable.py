"""Refuses examples that torch.export cannot trace, before their sizes are read: some have no sizes to read."""

from __future__ import annotations

from typing import Any

import torch

from shapeproof.constraints.errors import UsageError


def check_layout(name: str, example: Any) -> None:
    """Refuse a nested tensor, and a sparse one that is not COO.

    Raises:
        UsageError: the example is such a tensor; the message names the input.

    >>> check_layout("x", torch.ones(2).to_sparse())
    """
    if not isinstance(example, torch.Tensor):
        return
    if example.is_nested:
        raise UsageError(f"`{name}` is a nested tensor, which cannot be exported: pass a padded tensor and lengths")
    if example.layout not in {torch.strided, torch.sparse_coo}:
        raise UsageError(f"`{name}` is a tensor of layout {example.layout}, which cannot be exported: pass a COO one")
