"""Let torch.nn's attention give what it gives in eager, while a model is traced.

Without gradients eager runs fused kernels; torch runs other code while it traces.

- The result of MultiheadAttention's kernel is contiguous. Torch copies the other result into that layout, but only if
  no torch function mode is active; its own exporter activates one.
- TransformerEncoder packs a padded batch into a nested tensor, and returns zeros where `src_key_padding_mask` pads (if
  it checks the mask: if that pads each row at its end). The other code returns other values there, so it is refused.

Also let the method `contiguous` call its operator, while a model is traced.

Torch's own method asks first whether the tensor is contiguous, and calls no operator if it is. That question belongs to
no operator, so it cannot be settled where it is asked. Besides, the program would not treat an input with other strides
as eager does. A torch function mode sees the calls of the model, but not those of torch's functions in Python
(`multi_head_attention_forward`): so fake tensors get a method of their own. The class of all tensors is left alone:
torch lists its methods once, for the rest of the process.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import handle_torch_function, has_torch_function

from shapeproof.export.shim.replaced import replaced

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
    asked, enabled = torch.overrides.has_torch_function, torch.backends.mha.get_fastpath_enabled
    users_mode = asked((torch.empty(0, device="cpu"),))

    def answered(args: Any) -> bool:
        if sys._getframe(1).f_code is not _ATTENTION:
            return asked(args)
        return users_mode or any(map(_is_overridden, args))

    def fused() -> bool:
        caller = sys._getframe(1)
        if caller.f_code is _ENCODER and enabled() and not users_mode and _may_pack(**caller.f_locals):
            raise NotImplementedError(_NESTED)
        return enabled()

    inner = replaced(torch.backends.mha, get_fastpath_enabled=fused)
    with replaced(torch.overrides, has_torch_function=answered), inner:
        yield


def _may_pack(
    self: torch.nn.TransformerEncoder,
    src: torch.Tensor,
    mask: Any,
    src_key_padding_mask: Any,
    first_layer: torch.nn.Module,
    **_: Any,
) -> bool:
    """True if an encoder with these arguments packs in eager, at least for some masks."""
    takes = getattr(self, "use_nested_tensor", False) and src.dim() == len("BTC") and not src.is_nested
    learns = torch.is_grad_enabled() and any(each.requires_grad for each in (src, *first_layer.parameters()))
    padded = src_key_padding_mask is not None and mask is None
    return takes and padded and not first_layer.training and not learns and not torch.is_autocast_enabled()


def _is_overridden(tensor: object) -> bool:
    disabled = torch._C._disabled_torch_function_impl
    return type(tensor) is not torch.Tensor and getattr(type(tensor), "__torch_function__", disabled) is not disabled


CONTIGUOUS = torch._C.TensorBase.contiguous
"""Torch's own method, as modes see it."""


def contiguous(self: FakeTensor, *args: Any, **kwargs: Any) -> Any:
    """Call the operator; modes see torch's own method, as in eager, and a user's method is called as there."""
    if args or "contiguous" in vars(torch.Tensor):
        return super(FakeTensor, self).contiguous(*args, **kwargs)
    if has_torch_function((self,)):
        return handle_torch_function(CONTIGUOUS, (self,), self, **kwargs)
    return torch.ops.aten.contiguous.default(self, **kwargs)


def contiguous_by_its_operator() -> AbstractContextManager[None]:
    """Inside this block, `contiguous` of a fake tensor calls its operator, whatever the tensor's layout.

    >>> with contiguous_by_its_operator():
    ...     FakeTensor.contiguous is contiguous, torch.Tensor.contiguous is CONTIGUOUS
    (True, True)
    >>> FakeTensor.contiguous is CONTIGUOUS
    True
    """
    return replaced(FakeTensor, contiguous=contiguous)
