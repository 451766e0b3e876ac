"""Checks to write into a model, beside torch._check. Eager runs them too; they do not depend on an export."""

from __future__ import annotations

import torch


def constrain_range(value: int | torch.SymInt, *, min: int | None = None, max: int | None = None) -> None:
    """Check that a number lies between two bounds, both included; a bound that is left out is not checked.

    The code after this check may rely on it: if the bounds cannot be proved, the program checks them at run time.

    Args:
        value: a size, or an int read from data.
        min: the lower bound.
        max: the upper bound.

    Raises:
        RuntimeError: the number is out of bounds.

    >>> constrain_range(3, min=0, max=3)
    >>> constrain_range(4, max=3)
    Traceback (most recent call last):
    RuntimeError: must be at most 3
    """
    if min is not None:
        torch._check(value >= min, lambda: f"must be at least {min}")
    if max is not None:
        torch._check(value <= max, lambda: f"must be at most {max}")
