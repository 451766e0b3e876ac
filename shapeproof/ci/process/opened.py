"""Names the data files below a folder that any code opens: an extension module raises no audit event.

Linux reports opens by all processes: perhaps too many files, not too few. Elsewhere none are named.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Iterator

_OPEN, _OVERFLOW, _FOLDER, _HEAD = 0x20, 0x4000, 0x40000000, struct.Struct("iIII")
"""Of inotify: what to report, the marks of lost reports and of a folder, and the head of a report."""


class Opened:
    """The data files below a folder that are opened from now on; hidden folders and environments are left out."""

    def __init__(self, root: str) -> None:
        self._folders: dict[int, str] = {}
        if sys.platform == "linux":
            libc = ctypes.CDLL(None)
            self._queue = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
            for folder in _folders(root):
                self._folders[libc.inotify_add_watch(self._queue, os.fsencode(folder), _OPEN)] = folder

    def paths(self) -> Iterator[str]:
        """Yield the paths. Raises an OSError if some may be missing."""
        try:
            data = memoryview(os.read(self._queue, 2**24) if self._folders else b"")  # longer than the queue
        except BlockingIOError:  # there is no report
            return
        while data:
            number, mask, _, length = _HEAD.unpack_from(data)
            name = os.fsdecode(bytes(data[_HEAD.size :][:length]).rstrip(b"\0"))
            data = data[_HEAD.size + length :]
            if mask & _OVERFLOW or -1 in self._folders:  # a folder could not be watched
                raise OSError
            if not mask & _FOLDER and not name.endswith((".py", ".pyc")):  # Python reports these itself
                yield os.path.join(self._folders[number], name)


def _folders(root: str) -> Iterator[str]:
    for folder, inner, files in os.walk(root):
        inner[:] = [name for name in inner if not name.startswith((".", "__pycache__", "node_modules"))]
        if "pyvenv.cfg" in files:
            inner.clear()
        else:
            yield folder
