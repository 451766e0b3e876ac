"""torch.vmap and its kind keep a stack of what is being transformed; a trace that fails may leave some of it behind.

Whatever is run next in the process would be taken for a part of that.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
import torch._functorch.predispatch
from torch.autograd import forward_ad


@contextlib.contextmanager
def transforms_ended() -> Iterator[None]:
    """Whatever transforms are begun meanwhile have ended afterwards."""
    begun = _begun()
    try:
        yield
    finally:
        _end(*begun)


def transforms(graph: torch.fx.Graph) -> bool:
    """Whether a graph calls what torch.vmap, torch.func.jvp and their kind begin and end by."""
    return any(getattr(node.target, "__module__", "") == _TRANSFORMING for node in graph.nodes)


def end_with(module: torch.fx.GraphModule) -> None:
    """Have the transforms that a graph begins end with each call of its module, where one raises, too."""
    if not transforms(module.graph):
        return
    begun: list[tuple[int, int]] = []
    module.register_forward_pre_hook(lambda *_: begun.append(_begun()))
    module.register_forward_hook(lambda *_: _end(*begun.pop()) if begun else None, always_call=True)


_TRANSFORMING = torch._functorch.predispatch.__name__
"""Where the functions are that a graph calls for torch.func.jvp and its kind."""


def _begun() -> tuple[int, int]:
    """How many transforms have begun, and how many levels of derivatives that are taken forward."""
    return torch._C._functorch.get_dynamic_layer_stack_depth(), forward_ad._current_level


def transforming() -> bool:
    """Whether torch.vmap, torch.func.grad or their kind has begun: what is called now is given their tensors."""
    depth, level = _begun()
    return depth > 0 or level >= 0


def _end(depth: int, level: int) -> None:
    torch._C._functorch.pop_dynamic_layer_stack_and_undo_to_depth(depth)
    while forward_ad._current_level > level:
        forward_ad.exit_dual_level()
    with contextlib.suppress(
        RuntimeError
    ):  # a graph begins a level past `forward_ad`; torch refuses where none is left
        torch._C._exit_dual_level(level=level + 1)
