"""Differences that the tolerance hides, since the results are so small: random weights may make them 1e-30."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shapeproof.export.explore.beside_eager.laid_out import has_elements

_FAINT = 2.0**-40
"""Far below the roundings of numbers near 1: a result as small as this is no remainder of their differences."""


def differ_faintly(want: Sequence[Any], got: Sequence[Any]) -> bool:
    """True if results that are equal within the tolerance are tiny and, for their size, not equal.

    >>> import torch
    >>> tiny = torch.tensor([2.0**-90, 0.0])
    >>> differ_faintly([tiny], [tiny * 2]), differ_faintly([tiny], [tiny * 1.0001])
    (True, False)
    >>> differ_faintly([tiny + 1], [tiny * 2 + 1])
    False
    """
    pairs = [(a.detach(), b.detach()) for a, b in zip(want, got, strict=True) if _has_size(a)]
    largest = max((float(a.abs().max()) for a, _ in pairs), default=0.0)
    if not 0.0 < largest < _FAINT:
        return False
    return any(float((a.double() - b.double()).abs().max()) > largest * 1e-3 for a, b in pairs)


def _has_size(result: Any) -> bool:
    known = has_elements(result) and result.device.type != "meta"
    return known and result.is_floating_point() and result.itemsize > 1
