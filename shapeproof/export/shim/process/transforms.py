"""Cleans up the stack of active transforms (torch.vmap and the like) that a failed trace may leave behind.

Otherwise torch would treat the next code in the process as part of those transforms.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
import torch._functorch.predispatch
from torch.autograd import forward_ad


@contextlib.contextmanager
def transforms_ended() -> Iterator[None]:
    """End all transforms that begin inside the block when the block ends."""
    begun = _begun()
    try:
        yield
    finally:
        _end(*begun)


def transforms(graph: torch.fx.Graph) -> bool:
    """True if a graph calls functions that begin and end torch.vmap, torch.func.jvp and similar transforms."""
    return any(getattr(node.target, "__module__", "") == _TRANSFORMING for node in graph.nodes)


def end_with(module: torch.fx.GraphModule) -> None:
    """End the transforms that a graph begins after each call of its module, even if the call raises."""
    if not transforms(module.graph):
        return
    begun: list[tuple[int, int]] = []
    module.register_forward_pre_hook(lambda *_: begun.append(_begun()))
    module.register_forward_hook(lambda *_: _end(*begun.pop()) if begun else None, always_call=True)


_TRANSFORMING = torch._functorch.predispatch.__name__
"""The module of the functions that a graph calls for torch.func.jvp and similar transforms."""


def _begun() -> tuple[int, int]:
    """The number of active transforms, and the current level of forward-mode derivatives."""
    return torch._C._functorch.get_dynamic_layer_stack_depth(), forward_ad._current_level


def transforming() -> bool:
    """True inside torch.vmap, torch.func.grad or a similar transform: functions called now receive its tensors."""
    depth, level = _begun()
    return depth > 0 or level >= 0


def is_transformed(tensor: torch.Tensor) -> bool:
    """True for a tensor of torch.vmap or a similar transform; after the transform, nothing can be read of it."""
    return torch._C._functorch.is_functorch_wrapped_tensor(tensor)


def _end(depth: int, level: int) -> None:
    torch._C._functorch.pop_dynamic_layer_stack_and_undo_to_depth(depth)
    while forward_ad._current_level > level:
        forward_ad.exit_dual_level()
    with contextlib.suppress(
        RuntimeError
    ):  # a graph begins a level past `forward_ad`; torch refuses to end one if none is left
        torch._C._exit_dual_level(level=level + 1)
