"""Cleans up what a failed trace or call may leave behind: active transforms (torch.vmap and the like), no_grad.

Otherwise torch would treat the next code in the process as part of those transforms, or record no gradients of it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch._functorch.predispatch
from torch.autograd import forward_ad


@contextlib.contextmanager
def transforms_ended() -> Iterator[None]:
    """End all transforms that begin inside the block when the block ends, and have gradients enabled as before."""
    begun = _begun()
    try:
        yield
    finally:
        _end(*begun)


def transforms(graph: torch.fx.Graph) -> bool:
    """True if a graph calls functions that begin and end torch.vmap, torch.func.jvp and similar transforms."""
    return any(getattr(node.target, "__module__", "") == _TRANSFORMING for node in graph.nodes)


def end_with(module: torch.fx.GraphModule) -> None:
    """End what a graph begins after each call of its module, even if the call raises: transforms, blocks of no_grad."""
    begin: Callable[[], tuple[Any, ...]] = _begun
    end: Callable[..., None] = _end
    if not transforms(module.graph):
        if not module.graph.find_nodes(op="call_function", target=torch.ops.higher_order.wrap_with_set_grad_enabled):
            return
        begin, end = _mode, torch._C._set_grad_enabled  # dynamo can trace these alone
    begun: list[tuple[Any, ...]] = []
    module.register_forward_pre_hook(lambda *_: begun.append(begin()))
    module.register_forward_hook(lambda *_: end(*begun.pop()) if begun else None, always_call=True)


def _mode() -> tuple[bool]:
    return (torch.is_grad_enabled(),)


_TRANSFORMING = torch._functorch.predispatch.__name__
"""The module of the functions that a graph calls for torch.func.jvp and similar transforms."""

for _each in (
    torch._functorch.predispatch._vmap_increment_nesting,
    torch._functorch.predispatch._vmap_decrement_nesting,
):
    torch.fx.node.has_side_effect(_each)  # as torch says of jvp's; torch.export.unflatten drops what nothing uses


def _begun() -> tuple[int, int, bool]:
    """The number of active transforms, the current level of forward-mode derivatives, if gradients are enabled."""
    depth = torch._C._functorch.get_dynamic_layer_stack_depth()
    return depth, forward_ad._current_level, torch.is_grad_enabled()


def transforming() -> bool:
    """True inside torch.vmap, torch.func.grad or a similar transform: functions called now receive its tensors."""
    depth, level, _ = _begun()
    return depth > 0 or level >= 0


def is_transformed(tensor: torch.Tensor) -> bool:
    """True for a tensor of torch.vmap or a similar transform; after the transform, nothing can be read of it."""
    return torch._C._functorch.is_functorch_wrapped_tensor(tensor)


def _end(depth: int, level: int, tracked: bool) -> None:  # noqa: FBT001 - a state, part by part
    torch._C._set_grad_enabled(tracked)
    torch._C._functorch.pop_dynamic_layer_stack_and_undo_to_depth(depth)
    while forward_ad._current_level > level:
        forward_ad.exit_dual_level()
    with contextlib.suppress(
        RuntimeError
    ):  # a graph begins a level past `forward_ad`; torch refuses to end one if none is left
        torch._C._exit_dual_level(level=level + 1)
