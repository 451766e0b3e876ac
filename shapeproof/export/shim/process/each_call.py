"""Record in the graph a call of an operator that was not run, as torch's tracer records a call that it ran.

Torch notes a memory format with each tensor. For it, torch asks a dozen questions about symbolic sizes and strides,
each of which makes sympy expressions. Here the format is read off the terms of the sizes and strides. It is metadata:
no size, stride or operator depends on it.

Also modes of ours: a function that is called in place of each operator, and a watch over a model in its trace.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.export._trace
import torch.utils._pytree as pytree
from torch._export.non_strict_utils import _NonStrictTorchFunctionHandler
from torch._prims_common import is_contiguous_for_memory_format_or_false
from torch.fx.experimental import proxy_tensor
from torch.fx.passes import shape_prop
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from shapeproof.export.shim.replaced import replaced

_ORDERS = {
    (torch.channels_last, 4): (0, 2, 3, 1),
    (torch.channels_last_3d, 5): (0, 2, 3, 4, 1),
}
"""The order in memory of the dimensions of a tensor of this rank, the outermost first."""

unrecorded = proxy_tensor.disable_proxy_modes_tracing
"""A context for running an operator again: nothing is recorded, and no earlier answer is looked up."""


@contextlib.contextmanager
def formats_by_terms(lies: Callable[[torch.Tensor, Sequence[int]], bool]) -> Iterator[None]:
    """Inside this block, torch notes a memory format with a symbolic tensor if it lies as the format says.

    `lies`: true if a tensor's dimensions lie row by row in an order, the outermost first.
    """

    def is_laid_out(tensor: torch.Tensor, *, memory_format: torch.memory_format) -> bool:
        rank = tensor.dim()
        if not any(isinstance(each, torch.SymInt) for each in (*tensor.shape, *tensor.stride())):
            return is_contiguous_for_memory_format_or_false(tensor, memory_format=memory_format)
        order = range(rank) if memory_format is torch.contiguous_format else _ORDERS.get((memory_format, rank))
        return order is not None and lies(tensor, order)

    with replaced(shape_prop, is_contiguous_for_memory_format_or_false=is_laid_out):
        yield


def record_unrun(tracer: Any, call: tuple[Any, Any, Any], result: Any) -> Any:
    """Record a call (operator, arguments, named arguments) with its result."""
    func, *arguments = call
    flat, spec = pytree.tree_flatten(tuple(arguments))
    _, proxies, _ = proxy_tensor._fetch_proxies_and_all_constant_flag(flat, tracer)
    operands = pytree.tree_unflatten(proxies, spec)
    name = tracer.graph._target_to_str(func.overloadpacket.__name__)
    made = tracer.create_proxy("call_function", func, *operands, name=name)
    return proxy_tensor.track_tensor_tree(result, made, constant=None, tracer=tracer)


def record_whole(func: Any, args: Any, kwargs: Any, result: torch.Tensor) -> torch.Tensor:
    """Record a call of a function whose operator takes plain numbers where sizes are given, with its result.

    Law: the operator gets integers as numbers from data. Torch, tracing the graph again, would put the plain size of
    its point in place of a symbolic one, in silence; a number from data it refuses.
    """
    mode, operator = proxy_tensor.get_proxy_mode(), getattr(torch.ops.aten, func.__name__).default
    made = {**kwargs, "dtype": result.dtype, "device": result.device}
    taken = {each.name: made[each.name] for each in operator._schema.arguments if each.name in made}
    if mode is not None:
        record_unrun(mode.tracer, (operator, *pytree.tree_map(_as_data, (args, taken))), result)
    return result


def _as_data(value: Any) -> Any:
    return (
        torch.scalar_tensor(value, dtype=torch.int64, device="cpu").item()
        if type(value) in {int, torch.SymInt}
        else value
    )


class in_place_of_each_call(TorchDispatchMode):  # noqa: N801 - used as a function
    """Inside this block, call `run` with each operator and its arguments; its result is the operator's.

    Under a mode that is not torch's own, torch.compile compiles nothing, and torch.cond, which it compiles, fails.
    """

    supports_higher_order_operators = True

    @classmethod
    def is_infra_mode(cls) -> bool:
        """As the modes of torch itself are."""
        return True

    def __init__(self, run: Callable[[Any, tuple[Any, ...], Mapping[str, Any]], Any]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._run = run

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Leave the call to `run`."""
        return self._run(func, args, kwargs or {})


@contextlib.contextmanager
def while_the_model_runs(watch: TorchFunctionMode) -> Iterator[None]:
    """Inside this block, a mode is active while torch.export runs the model, beneath the mode that torch enters then.

    It is not called while torch makes the fakes of the parameters, which takes some eighty calls for each.
    """

    @contextlib.contextmanager
    def both() -> Iterator[None]:
        with watch, _NonStrictTorchFunctionHandler():
            yield

    with replaced(torch.export._trace, _NonStrictTorchFunctionHandler=both):
        yield
