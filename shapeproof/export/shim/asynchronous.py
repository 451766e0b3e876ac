"""A check on data as a node of the graph, which an accelerator makes without the host."""

from __future__ import annotations

import torch


def assert_all(condition: torch.Tensor, message: str) -> None:
    """Raise when the program runs, if a condition does not hold somewhere."""
    torch.ops.aten._assert_async.msg(condition.all(), message)
