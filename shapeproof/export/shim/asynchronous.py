"""A check on data as a node of the graph, which an accelerator runs without the host."""

from __future__ import annotations

import torch


def assert_all(condition: torch.Tensor, message: str) -> None:
    """Raise when the program runs if some element of the condition is false."""
    torch.ops.aten._assert_async.msg(condition.all(), message)
