"""Has autograd's own work recorded, operator by operator, where a model is traced; and sees what no graph has of it.

torch.export records above autograd, where what a backward reads of the forward is lost. Here it is recorded below, by a
tracer of its own, on the same symbolic sizes; what it has recorded is then run for torch.export to record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.autograd.function import BackwardCFunction
from torch.fx.experimental import proxy_tensor


def recorded(function: Callable[..., Any], *args: Any) -> Any:
    """What a function gives that differentiates; it reads no tensor and no size but its arguments'."""
    if proxy_tensor.get_proxy_mode() is None:
        return function(*args)

    def plain(*given: Any) -> Any:  # torch counts the arguments of functions alone
        return function(*given)

    with proxy_tensor.disable_proxy_modes_tracing():
        graph = proxy_tensor.make_fx(plain)(*args)
    return graph(*args)


def has_hooks(tensor: torch.Tensor) -> bool:
    """Whether a hook changes the gradient of a parameter, or is told of it."""
    return bool(tensor._backward_hooks)


def has_own_backward(results: Iterable[Any]) -> bool:
    """Whether an autograd.Function of the user's, or a hook of a module, takes part in the gradients of results.

    >>> has_own_backward([torch.ones(2, requires_grad=True) * 2])
    False
    """
    pending = [each.grad_fn for each in results if isinstance(each, torch.Tensor)]
    met = set()
    while pending:
        node = pending.pop()
        if node is None or node in met:
            continue
        if isinstance(node, BackwardCFunction) and not _is_of_an_operator(node):
            return True
        met.add(node)
        pending += [following for following, _ in node.next_functions]
    return False


def _is_of_an_operator(node: BackwardCFunction) -> bool:
    made_by = type(node)._forward_cls  # type: ignore[attr-defined]
    installed = made_by.__module__.split(".")[0] in {"torch", __name__.split(".")[0]}
    return installed and made_by.__name__ != "BackwardHookFunction"
