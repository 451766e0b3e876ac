"""Records a function as a graph within the graph that torch records now, and torch's `scan`, which takes such a body.

Torch itself has dynamo read the function, which reads no functions of ours and knows no symbolic sizes of ours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._higher_order_ops.scan import scan_op
from torch._higher_order_ops.utils import reenter_make_fx
from torch.fx.experimental.proxy_tensor import get_proxy_mode, get_proxy_slot

from shapeproof.export.shim.process.each_call import unrecorded


def recorder() -> Any:
    """Return what records the program now; None if nothing does."""
    mode = get_proxy_mode()
    return None if mode is None else mode.tracer


def is_recorded(tensor: torch.Tensor, by: Any) -> bool:
    """True if a tensor is an input of the program that is recorded by this, or made by one of its operators."""
    return get_proxy_slot(tensor, by, None) is not None


def recorded(function: Callable[..., Any], *args: torch.Tensor) -> torch.fx.GraphModule:
    """Run a function, and return its graph. A tensor that is none of its arguments is an attribute of the graph."""
    with unrecorded():
        made: torch.fx.GraphModule = reenter_make_fx(function)(*args)
    return made


def scan(
    body: torch.fx.GraphModule,
    carried: Sequence[torch.Tensor],
    rows: Sequence[torch.Tensor],
    captured: Sequence[torch.Tensor],
) -> tuple[torch.Tensor, ...]:
    """Record the operator: the body takes what is carried, a row of each, and what is captured, at each step."""
    made: tuple[torch.Tensor, ...] = scan_op(body, list(carried), list(rows), tuple(captured))
    return made


def has_hooks(module: torch.nn.Module) -> bool:
    """True if a module's call runs hooks."""
    return bool(module._forward_hooks or module._forward_pre_hooks or module._backward_hooks)
