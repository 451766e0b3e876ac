"""Sizes that torch.compile has seen to vary (automatic dynamic, PGO), as entries of its list of sources."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import torch
from torch._dynamo import pgo


def learned(model: torch.nn.Module) -> list[str]:
    """Return the sizes and ints of a model's forward that torch.compile has seen to vary: `L['x']:0`, `L['n']`."""
    forward = inspect.unwrap(type(model).forward)
    state = pgo.get_code_state().get(pgo.CodeId.make(forward.__code__, forward.__closure__))
    if state is None:
        return []
    return [entry for source, seen in state.automatic_dynamic.items() for entry in _entries(source, seen)]


def _entries(source: str, seen: pgo.FrameStateSizeEntry) -> Iterator[str]:
    if isinstance(seen.size, tuple):
        yield from (f"{source}:{i}" for i, size in enumerate(seen.size) if size is pgo.auto_dynamic)
    elif seen.scalar is pgo.auto_dynamic:  # an int that varied, or a tensor whose rank varied
        yield source
