"""Keeps the process from work that does nothing for an export.

*Garbage.* An export creates hundreds of thousands of objects, so Python's collector keeps walking everything that the
process holds: torch, sympy and the model. This walk takes a tenth of an export's time and finds no garbage.

*Threads.* A kernel on few elements ends before other threads have begun, and OpenMP's threads wait for each other in a
busy loop. Where other processes use the cores, the wait takes ten times the work.
"""

from __future__ import annotations

import contextlib
import functools
import gc
from collections.abc import Iterator

from threadpoolctl import ThreadpoolController

from shapeproof.export.limits import ONE_THREAD_ELEMENTS


@contextlib.contextmanager
def only_new_garbage() -> Iterator[None]:
    """Collect only objects created inside the block; objects frozen by other code stay frozen."""
    if gc.get_freeze_count():
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextlib.contextmanager
def few_threads(elements: int) -> Iterator[None]:
    """Inside this block, kernels of this thread run on one thread if runs read no more than a few elements.

    Law: other threads keep theirs. A thread that uses torch for the first time would keep `torch.set_num_threads(1)`.

    >>> import torch
    >>> with few_threads(100):
    ...     torch.get_num_threads()
    1
    """
    if elements > ONE_THREAD_ELEMENTS:
        yield
        return
    with _pools().limit(limits=1, user_api="openmp"):
        yield


@functools.cache
def _pools() -> ThreadpoolController:
    """The thread pools of the process, sought once: torch brings its own with it."""
    return ThreadpoolController()
