"""Raise where a kernel of torch would end the process, so that a replay can tell.

A program is also run where its own trace does not lead, at sizes that answer a decision otherwise: eager takes another
kernel for attention over a sequence of length 0, and none for the gradients of a batch norm of no rows; the kernels of
the program divide by these sizes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import torch

from shapeproof.export.ops.table import known_of
from shapeproof.export.shim.process.each_call import in_place_of_each_call
from shapeproof.export.shim.trees import graph_modules


def refusing_crashes(run: Any) -> contextlib.AbstractContextManager[Any]:
    """Inside this block, a kernel that would end the process raises; costs nothing if the program calls none such."""
    if not isinstance(run, torch.nn.Module):
        return contextlib.nullcontext()
    called = (node.target for each in graph_modules(run) for node in each.graph.nodes if node.op == "call_function")
    divides = any(known_of(target).divides_by or known_of(target).divides_by_all for target in called)
    return in_place_of_each_call(_refusing_division) if divides else contextlib.nullcontext()


def _refusing_division(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Run an operator, unless its kernel would divide by a size of its first operands that is 0.

    Raises:
        ZeroDivisionError: it would.

    >>> _refusing_division(torch.ops.aten.relu.default, (torch.ones(0),), {})
    tensor([])
    """
    known, tensors = known_of(func), [each for each in args[:3] if isinstance(each, torch.Tensor)]
    divisors = [each.shape[dim] for dim in known.divides_by for each in tensors]
    if 0 in divisors or (known.divides_by_all and tensors and tensors[0].numel() == 0):
        raise ZeroDivisionError(f"the kernel of `{func}` divides by a size of 0")
    return func(*args, **kwargs)
