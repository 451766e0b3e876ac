"""Checks to write into a model, beside torch._check. Eager makes them too; they know nothing of an export."""

from __future__ import annotations

import torch


def constrain_range(value: int | torch.SymInt, *, min: int | None = None, max: int | None = None) -> None:  # noqa: A002
    """Check that a number lies between two ends, both included; an end that is left out is not checked.

    What follows may rely on it: where it cannot be proved, the program makes the check at run time.

    Args:
        value: the number: a size, or an int out of data.
        min: the least that it may be.
        max: the most that it may be.

    Raises:
        RuntimeError: the number does not lie there.

    >>> constrain_range(3, min=0, max=3)
    >>> constrain_range(4, max=3)
    Traceback (most recent call last):
    RuntimeError: must be at most 3
    """
    if min is not None:
        torch._check(value >= min, lambda: f"must be at least {min}")  # noqa: SLF001 - the name that models use
    if max is not None:
        torch._check(value <= max, lambda: f"must be at most {max}")  # noqa: SLF001
