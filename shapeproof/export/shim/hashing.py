"""Python looks a size up in a dict or a set by its hash, which torch does not give; meanwhile somebody else may.

Sizes of another ShapeEnv have no hash, as ever.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import torch


@contextlib.contextmanager
def hashed(shape_env: Any, give: Callable[[torch.SymInt, FrameType], int | None]) -> Iterator[None]:
    """The sizes of a ShapeEnv have the hash that is given to the frame that asks; torch's answer where that is None."""
    torchs = torch.SymInt.__hash__

    def __hash__(self: torch.SymInt) -> int:  # noqa: N807
        frame = inspect.currentframe()
        caller = frame.f_back if frame is not None else None
        mine = caller is not None and self.node.shape_env is shape_env
        found = give(self, caller) if mine and caller is not None else None
        return torchs(self) if found is None else found

    torch.SymInt.__hash__ = __hash__  # type: ignore[method-assign]
    try:
        yield
    finally:
        torch.SymInt.__hash__ = torchs  # type: ignore[method-assign]
