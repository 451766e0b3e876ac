"""Let the method `contiguous` call its operator, while a model is traced.

Torch's own method asks first whether the tensor is contiguous, and calls no operator if it is. That question belongs to
no operator, so it cannot be settled where it is asked. Besides, the program would not treat an input with other strides
as eager does. A torch function mode sees the calls of the model, but not those of torch's functions in Python
(`multi_head_attention_forward`): so the method itself is replaced.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.overrides import handle_torch_function, has_torch_function

CONTIGUOUS = torch._C.TensorBase.contiguous
"""Torch's own method, as modes see it."""


def contiguous(self: torch.Tensor, **kwargs: Any) -> Any:
    """Call the operator; modes see torch's own method, as in eager."""
    if has_torch_function((self,)):
        return handle_torch_function(CONTIGUOUS, (self,), self, **kwargs)
    return torch.ops.aten.contiguous.default(self, **kwargs)


@contextlib.contextmanager
def contiguous_by_its_operator() -> Iterator[None]:
    """Inside this block, `contiguous` calls its operator, whatever the layout of a tensor.

    >>> with contiguous_by_its_operator():
    ...     torch.Tensor.contiguous is contiguous, torch.ones(2).contiguous()
    (True, tensor([1., 1.]))
    >>> torch.Tensor.contiguous is CONTIGUOUS
    True
    """
    if torch.Tensor.contiguous is not CONTIGUOUS:  # a user's own method
        yield
        return
    torch.Tensor.contiguous = contiguous  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        del torch.Tensor.contiguous  # the class has torch's own from its base
