"""Serve: what runs around a program: ranks that agree before anything is traced.

ranks.py   `agree` on what was seen, `together` with one program, over torch.distributed
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shapeproof.serve.ranks import agree as agree
    from shapeproof.serve.ranks import together as together

__all__ = ["agree", "together"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("shapeproof.serve.ranks"), name)
