"""Serve: what runs around a program: ranks that agree before anything is traced, sizes to pad inputs to.

ranks.py      `agree` on what was seen, `together` with one program, over torch.distributed
bucketing.py  `buckets`: the sizes to pad to
plans.py      the search for them
sized.py      the sizes that are to be padded
padding.py    whether a program may be padded, proved or tried
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shapeproof.serve.bucketing import Buckets as Buckets
    from shapeproof.serve.bucketing import buckets as buckets
    from shapeproof.serve.padding import Padding as Padding
    from shapeproof.serve.ranks import agree as agree
    from shapeproof.serve.ranks import together as together

_HOMES = {"Buckets": "bucketing", "Padding": "padding", "agree": "ranks", "buckets": "bucketing", "together": "ranks"}

__all__ = list(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"shapeproof.serve.{_HOMES[name]}"), name)
