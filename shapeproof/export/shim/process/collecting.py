"""Keeps Python's garbage collector to what an export makes.

An export makes objects by the hundred thousand, which is when Python walks all that the process has ever kept: torch,
sympy and the model, a tenth of the time of an export. Nothing of that becomes garbage meanwhile. Nothing else is done
here.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def only_new_garbage() -> Iterator[None]:
    """While this lasts, only objects made meanwhile are collected. What somebody else has frozen stays so."""
    if gc.get_freeze_count():
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
