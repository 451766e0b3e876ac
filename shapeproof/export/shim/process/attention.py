"""Let torch.nn's attention give what it gives in eager, while a model is traced.

Without gradients eager runs fused kernels; torch runs other code while it traces.

- The result of MultiheadAttention's kernel is contiguous. Torch copies the other result into that layout, but only if
  no torch function mode is active; its own exporter activates one.
- TransformerEncoder packs a padded batch into a nested tensor, and returns zeros where `src_key_padding_mask` pads, if
  the mask pads each row at its end. The other code returns other values there, so such a model is refused.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import torch

_ATTENTION = torch.nn.MultiheadAttention.forward.__code__
_ENCODER = torch.nn.TransformerEncoder.forward.__code__
_NESTED = (
    "without gradients, torch.nn.TransformerEncoder returns zeros where `src_key_padding_mask` pads rows at their end, "
    "and no program that is traced does; make it with enable_nested_tensor=False"
)


@contextlib.contextmanager
def attention_as_in_eager() -> Iterator[None]:
    """Inside this block, torch.nn's attention does not take a mode of torch's tracer for one of the user's.

    Raises:
        NotImplementedError: a TransformerEncoder that would pack its batch in eager.
    """
    asked, compiling = torch.overrides.has_torch_function, torch.compiler.is_compiling
    users_mode = asked((torch.empty(0),))

    def answered(args: Any) -> bool:
        if sys._getframe(1).f_code is not _ATTENTION:
            return asked(args)
        return users_mode or any(map(_is_overridden, args))

    def told() -> bool:
        caller = sys._getframe(1)
        if caller.f_code is _ENCODER and not users_mode and _may_pack(**caller.f_locals):
            raise NotImplementedError(_NESTED)
        return compiling()

    torch.overrides.has_torch_function, torch.compiler.is_compiling = answered, told
    try:
        yield
    finally:
        torch.overrides.has_torch_function, torch.compiler.is_compiling = asked, compiling


def _may_pack(src: torch.Tensor, mask: Any, first_layer: torch.nn.Module, **_: Any) -> bool:
    """True if an encoder that asks whether it is traced would look at its padding in eager."""
    learns = any(each.requires_grad for each in (src, *first_layer.parameters()))
    return mask is None and not torch.is_autocast_enabled() and not (torch.is_grad_enabled() and learns)


def _is_overridden(tensor: object) -> bool:
    disabled = torch._C._disabled_torch_function_impl
    return type(tensor) is not torch.Tensor and getattr(type(tensor), "__torch_function__", disabled) is not disabled
