"""Run a call on tensors without data: sizes, dtypes and layouts are checked, and nothing is computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import FakeTensorMode

from shapeproof.export.shim.process.quiet import quiet
from shapeproof.export.shim.process.transforms import transforms_ended
from shapeproof.export.shim.trees import map_tensors


def error_without_data(call: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Exception | None:
    """Return what a call raises on tensors like these without data, or None.

    >>> import torch
    >>> error_without_data(torch.mm, (torch.ones(2, 3), torch.ones(3, 4)), {}) is None
    True
    >>> type(error_without_data(torch.mm, (torch.ones(2, 3), torch.ones(2, 4)), {})).__name__
    'RuntimeError'
    """
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    given, named = map_tensors((args, dict(kwargs)), mode.from_tensor)
    try:
        with quiet(), transforms_ended(), mode, enable_python_dispatcher():
            call(*given, **named)
    except Exception as error:  # noqa: BLE001 - whatever the call raises is the answer
        return error
    return None
