"""torch.vmap and its kind keep a stack of what is being transformed; a trace that fails may leave some of it behind.

Whatever is run next in the process would be taken for a part of that.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def transforms_ended() -> Iterator[None]:
    """Whatever transforms are begun meanwhile have ended afterwards."""
    depth = torch._C._functorch.get_dynamic_layer_stack_depth()
    try:
        yield
    finally:
        torch._C._functorch.pop_dynamic_layer_stack_and_undo_to_depth(depth)
