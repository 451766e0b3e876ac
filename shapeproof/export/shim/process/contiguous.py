"""Let the method `contiguous` call its operator, while a model is traced.

Torch's own method asks first whether the tensor is contiguous, and calls no operator if it is. That question belongs to
no operator, so it cannot be settled where it is asked. Besides, the program would not treat an input with other strides
as eager does. A torch function mode sees the calls of the model, but not those of torch's functions in Python
(`multi_head_attention_forward`): so fake tensors get a method of their own. The class of all tensors is left alone:
torch lists its methods once, for the rest of the process.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import handle_torch_function, has_torch_function

from shapeproof.export.shim.replaced import replaced

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
