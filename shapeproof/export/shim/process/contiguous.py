"""Let the method `contiguous` call its operator while a model is traced.

The method looks at the layout first and calls no operator for a contiguous tensor. The operator does the same when the
program runs, so the program may always call it: no question is asked about sizes, and an input with other strides is
treated as eager treats it. A TorchFunctionMode does not see the calls inside torch's own functions
(`multi_head_attention_forward`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor


def _contiguous(tensor: FakeTensor, memory_format: torch.memory_format = torch.contiguous_format) -> Any:
    return torch.ops.aten.contiguous.default(tensor, memory_format=memory_format)


@contextlib.contextmanager
def contiguous_by_operator() -> Iterator[None]:
    """Inside this block, `x.contiguous()` of a fake tensor calls `aten.contiguous`, whatever the layout of x."""
    FakeTensor.contiguous = _contiguous  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        del FakeTensor.contiguous
