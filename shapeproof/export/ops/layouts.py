"""Calls into torch that act on a tensor's layout in its storage, and not only on the elements that it reaches.

They read strides or an offset, or reject a stride even where the size is 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

_READING = frozenset(
    {torch.Tensor.stride, torch.Tensor.storage_offset, torch.Tensor.is_contiguous, torch.Tensor.dim_order}
)
_REFUSING = frozenset({torch.view_as_complex})


def acts_on_layout(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """True if a function of torch acts on the layout, given these arguments.

    >>> x = torch.ones(2, 2)
    >>> acts_on_layout(torch.Tensor.view, (x, torch.int32), {}), acts_on_layout(torch.Tensor.view, (x, 4), {})
    (True, False)
    """
    given = (*args, *kwargs.values())
    as_another_type = func is torch.Tensor.view and any(isinstance(each, torch.dtype) for each in given)
    return as_another_type or func in _READING | _REFUSING


def tensor_of(args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.Tensor:
    """Return the tensor whose layout such a call acts on.

    >>> tuple(tensor_of((), {"input": torch.ones(3, 2)}).shape)
    (3, 2)
    """
    return next(each for each in (*args, *kwargs.values()) if isinstance(each, torch.Tensor))
