"""Elementwise operators of one tensor: the result has the operand's sizes and layout.

Law: where the operand is contiguous, row by row, eager's result is contiguous, too, for every size; so the operator
need not be run. Other layouts, and operators that change the dtype, are left to torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from shapeproof.constraints.terms import ONE, Term, maximum

_aten = torch.ops.aten
ELEMENTWISE = frozenset({
    *(_aten.relu.default, _aten.relu6.default, _aten.silu.default, _aten.gelu.default, _aten.sigmoid.default),
    *(_aten.tanh.default, _aten.hardswish.default, _aten.hardsigmoid.default, _aten.leaky_relu.default),
    *(_aten.elu.default, _aten.mish.default, _aten.exp.default, _aten.log.default, _aten.neg.default),
    *(_aten.abs.default, _aten.sqrt.default, _aten.rsqrt.default, _aten.sin.default, _aten.cos.default),
    *(_aten.erf.default,),
})  # fmt: skip
"""Operators that return floats of the operand's dtype."""


def keeps_layout(func: Any, operands: Sequence[torch.Tensor], read: Callable[[int | torch.SymInt], Term]) -> bool:
    """True if a call returns a tensor like its one operand in everything but the elements."""
    if func not in ELEMENTWISE or len(operands) != 1 or torch.is_inference_mode_enabled():
        return False
    (x,) = operands
    plain = x.is_floating_point() and x.layout is torch.strided and not x.is_neg()
    return plain and not torch.is_autocast_enabled(x.device.type) and lies_row_by_row(x, read)


def lies_row_by_row(x: torch.Tensor, read: Callable[[int | torch.SymInt], Term]) -> bool:
    """True if each stride is the product of the later sizes, where a size of 0 counts as 1 or as 0."""
    return lie_row_by_row([*map(read, x.shape)], [*map(read, x.stride())])


def lie_row_by_row(sizes: Sequence[Term], strides: Sequence[Term]) -> bool:
    """True if each stride is the product of the later sizes, where a size of 0 counts as 1 or as 0."""
    elements = counted = ONE
    for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
        if stride is not elements and stride is not counted:
            return False
        elements, counted = elements * size, counted * maximum(ONE, size)
    return True
