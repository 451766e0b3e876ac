"""Lets programs run in many threads at once, and a trace only while no program runs.

While torch traces, it patches `torch.nn.Module.__call__`, and an export puts functions into the model's classes. Other
threads would run with both. The patches are process-wide, so one gate serves the whole process. Runs nest: a thread
that is inside never waits. The gate does not see code outside served models.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator


class _Mine(threading.local):
    depth = 0
    """The number of nested runs of this thread."""


class Gate:
    """Open to any number of runs, or closed for one trace.

    >>> gate = Gate()
    >>> gate.enter(); gate.is_inside(); gate.leave(); gate.is_inside()
    True
    False
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # taken itself: a Condition takes it by a function of Python
        self._changed = threading.Condition(self._lock)
        self._running = 0
        self._closed = False
        self._mine = _Mine()

    def is_inside(self) -> bool:
        """True if this thread runs a program or traces."""
        return self._mine.depth > 0

    def enter(self) -> None:
        """Begin a run; wait while another thread traces."""
        mine = self._mine
        if not mine.depth:
            with self._lock:
                while self._closed:
                    self._changed.wait()
                self._running += 1
        mine.depth += 1

    def leave(self) -> None:
        """End a run."""
        mine = self._mine
        mine.depth -= 1
        if not mine.depth:
            with self._lock:
                self._running -= 1
                if self._closed:
                    self._changed.notify_all()

    @contextlib.contextmanager
    def closed(self) -> Iterator[None]:
        """Let only this thread run inside the block. The thread must not be inside a run."""
        with self._lock:
            while self._closed:
                self._changed.wait()
            self._closed = True
            while self._running:
                self._changed.wait()
        self._mine.depth = 1
        try:
            yield
        finally:
            self._mine.depth = 0
            with self._lock:
                self._closed = False
                self._changed.notify_all()


gate = Gate()
"""The gate of this process."""
