"""Has autograd's own work recorded, operator by operator, where a model is traced; and sees what no graph has of it.

torch.export records above autograd, where what a backward reads of the forward is lost. Here it is recorded below, by a
tracer of its own, on the same symbolic sizes; what it has recorded is then run for torch.export to record.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.autograd.function import BackwardCFunction
from torch.fx import traceback
from torch.fx.experimental import proxy_tensor

from shapeproof.export.shim.guarding import arranged
from shapeproof.export.shim.process.noted_lines import INNERMOST
from shapeproof.export.shim.replaced import replaced
from shapeproof.export.shim.trees import leaves


def beneath(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Return a model's forward whose operators are all recorded below autograd, with the gradients that it takes."""

    @functools.wraps(forward)
    def run(*args: Any, **kwargs: Any) -> Any:
        return recorded(lambda args, kwargs: forward(*args, **kwargs), args, kwargs)

    return run


def recorded(function: Callable[..., Any], *args: Any) -> Any:
    """What a function gives that differentiates; it reads no size but its arguments'."""
    if proxy_tensor.get_proxy_mode() is None:
        return function(*args)

    def plain(*given: Any) -> Any:  # torch counts the arguments of functions alone
        return function(*given)

    with traceback.preserve_node_meta():
        with proxy_tensor.disable_proxy_modes_tracing(), replaced(_ABOVE, __torch_function__=_passed_on):
            graph = proxy_tensor.make_fx(plain)(*args)
        return _Noting(graph).run(*args)


_ABOVE = proxy_tensor.PreDispatchTorchFunctionMode
"""Torch's mode that records what begins and ends a transform, torch.no_grad or torch.autocast."""


def _passed_on(_: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: ARG001 - torch's
    """Call a function, unless it only tells that mode of torch.autocast, which has begun or ended by then."""
    return None if func in _OF_AUTOCAST else func(*args, **(kwargs or {}))


_OF_AUTOCAST = (torch.amp.autocast_mode._enter_autocast, torch.amp.autocast_mode._exit_autocast)

ATTENTION = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
OF_ATTENTION = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default
"""Its gradient: it reads of each row the logarithm of a sum, in whose place torch's decomposition gives weights."""


def noting_lines(module: Any) -> Callable[..., Any]:
    """Return a function that runs the graph of a module; what is recorded, the backward, too, gets the nodes' lines."""

    def run(*args: Any, **kwargs: Any) -> Any:
        given = leaves(arranged(args, kwargs, module._in_spec, ValueError))
        with traceback.preserve_node_meta():
            found = _Noting(module).run(*given, enable_io_processing=False)
        return module.graph.process_outputs(found)

    return run


class _Noting(torch.fx.Interpreter):
    """Runs a graph, and has each node's line noted with what is recorded of it; of its backward, too."""

    def run_node(self, n: torch.fx.Node) -> Any:
        lines = [_text(n)]
        traceback.set_stack_trace(lines)
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        found = getattr(self, n.op)(n.target, args, kwargs)
        for each in leaves(found):
            if isinstance(each, torch.Tensor) and each.grad_fn is not None:
                each.grad_fn.register_prehook(lambda _: traceback.set_stack_trace(lines))
        return found


def _text(node: torch.fx.Node) -> str:
    line = node.meta.get(INNERMOST)
    return f'File "{line.file}", line {line.line}, in forward\n    {line.text}' if line else node.stack_trace or ""


def has_hooks(tensor: torch.Tensor) -> bool:
    """Whether a hook changes the gradient of a parameter, or is told of it."""
    return bool(tensor._backward_hooks)


def has_own_backward(results: Iterable[Any]) -> bool:
    """Whether an autograd.Function of the user's, or a hook of a module, takes part in the gradients of results.

    >>> has_own_backward([torch.ones(2, requires_grad=True) * 2])
    False
    """
    try:
        pending = [each.grad_fn for each in results if isinstance(each, torch.Tensor)]
    except RuntimeError:  # of a view made without gradients, and written into since with them, torch tells none
        return True
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
