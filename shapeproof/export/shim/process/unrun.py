"""Record in the graph a call of an operator that was not run, as torch's tracer records a call that it ran.

Torch notes a memory format with each tensor, and asks about every size and stride for it. The format follows from the
sizes and strides, so it is asked for once. It is metadata: no size, stride or operator depends on it.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.fx.experimental import proxy_tensor
from torch.fx.passes.shape_prop import TensorMetadata

Formats = dict[Hashable, "torch.memory_format | None"]
"""The memory formats that torch has noted, by what they follow from."""


unrecorded = proxy_tensor.disable_proxy_modes_tracing
"""A context for running an operator again: nothing is recorded, and no earlier answer is looked up."""


def record_unrun(
    tracer: Any, call: tuple[Any, Any, Any], result: Any, formats: Formats, layout: Hashable | None
) -> Any:
    """Record a call (operator, arguments, named arguments) with its result.

    `layout`: what the result's memory format follows from; None: torch finds the format.
    """
    func, *arguments = call
    flat, spec = pytree.tree_flatten(tuple(arguments))
    _, proxies, _ = proxy_tensor._fetch_proxies_and_all_constant_flag(flat, tracer)
    operands = pytree.tree_unflatten(proxies, spec)
    name = tracer.graph._target_to_str(func.overloadpacket.__name__)
    made = tracer.create_proxy("call_function", func, *operands, name=name)
    if layout not in formats:
        tracked = proxy_tensor.track_tensor_tree(result, made, constant=None, tracer=tracer)
        if layout is not None:
            formats[layout] = made.node.meta["tensor_meta"].memory_format
        return tracked
    proxy_tensor._set_unbacked_bindings(result, made)
    proxy_tensor.track_tensor(result, made, constant=None, tracer=tracer)
    made.node.meta["val"] = proxy_tensor.extract_val(result)
    shape, stride = result.shape, result.stride()
    kind = result.dtype, result.requires_grad
    made.node.meta["tensor_meta"] = TensorMetadata(
        shape, *kind, stride, formats[layout], is_quantized=False, qparams={}
    )
    return result
