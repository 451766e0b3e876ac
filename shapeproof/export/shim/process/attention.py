"""Give what torch.nn.MultiheadAttention returns the memory layout that it has in eager, while a model is traced.

Without gradients eager runs a fused kernel, whose result is contiguous. Torch runs other code while it traces, and
copies the result into that layout, but only if no torch function mode is active; its own exporter activates one.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import torch

_ATTENTION = torch.nn.MultiheadAttention.forward.__code__


@contextlib.contextmanager
def attention_laid_out() -> Iterator[None]:
    """Inside this block, MultiheadAttention does not take a mode of torch's tracer for one of the user's."""
    asked = torch.overrides.has_torch_function
    users_mode = asked((torch.empty(0),))

    def answered(args: Any) -> bool:
        if sys._getframe(1).f_code is not _ATTENTION:
            return asked(args)
        return users_mode or any(map(_is_overridden, args))

    torch.overrides.has_torch_function = answered
    try:
        yield
    finally:
        torch.overrides.has_torch_function = asked


def _is_overridden(tensor: object) -> bool:
    disabled = torch._C._disabled_torch_function_impl
    return type(tensor) is not torch.Tensor and getattr(type(tensor), "__torch_function__", disabled) is not disabled
