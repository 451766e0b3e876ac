"""Records the inputs of a live model with a cheap forward pre-hook, which neither changes nor keeps any input.

Calls during tracing, compilation or verified export do not count. A call that cannot be read is skipped: the model
itself reports the fault.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from shapeproof.constraints.errors import UsageError
from shapeproof.export.forms.seen.reading import CallReader
from shapeproof.export.shim.process.one_thread import exporting
from shapeproof.seen import Seen


@contextlib.contextmanager
def watching(model: torch.nn.Module, seen: Seen) -> Iterator[Seen]:
    """Record every call of a model inside the block in `seen`, from any thread.

    Args:
        model: the model.
        seen: receives the calls.

    >>> from shapeproof.seen import Seen
    >>> model, seen = torch.nn.Linear(4, 2), Seen()
    >>> with watching(model, seen):
    ...     _ = model(torch.ones(3, 4)), model(torch.ones(8, 4))
    >>> print(seen)
    L['input']: tensor size=[?, 4] stride=[4, 1]   size[0] 3..8
    """
    if not isinstance(model, torch.nn.Module):
        raise UsageError(f"expected a torch.nn.Module to watch, got {type(model).__name__}")
    reader = CallReader(model)

    def observe(_: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not (exporting() or torch.compiler.is_compiling()):
            with contextlib.suppress(UsageError, TypeError):
                call = reader.read(args, kwargs)
                if call is not None:
                    seen.add_call(call)

    handle = model.register_forward_pre_hook(observe, with_kwargs=True)
    try:
        yield seen
    finally:
        handle.remove()
