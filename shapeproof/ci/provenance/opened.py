"""Notices which files below a folder are opened by any code: an extension module raises no audit event.

The kernel reports opens by every process, so the result may name too many files, but not too few. This works on Linux;
on other systems the result is empty. Hidden folders and installed packages are not watched.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
from collections.abc import Iterator

from shapeproof.ci.provenance.identity import INSTALLED

_OPEN, _OVERFLOW, _FOLDER = 0x20, 0x4000, 0x40000000
"""Flags of inotify: the event to report, and flags of a report."""
_EVENT = struct.Struct("iIII")
_MOST = 4096
"""Maximum number of watched folders; a larger project is not watched."""
_PYTHON = (".py", ".pyc")
"""Files that only Python opens; Python raises an audit event for them."""


class Opened:
    """The files below a folder that are opened from now on."""

    def __init__(self, root: str) -> None:
        self._folders: dict[int, str] = {}
        self._descriptor = -1
        folders = [folder for folder, _ in zip(_walk(root), range(_MOST + 1), strict=False)]
        with contextlib.suppress(AttributeError, OSError):  # not Linux
            libc = ctypes.CDLL(None)
            if len(folders) <= _MOST:
                self._descriptor = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
            if self._descriptor >= 0:
                watched = {libc.inotify_add_watch(self._descriptor, os.fsencode(path), _OPEN): path for path in folders}
                self._folders = {number: path for number, path in watched.items() if number >= 0}

    def paths(self) -> set[str] | None:
        """Return the files; None if the kernel's queue overflowed."""
        found: set[str] = set()
        for number, mask, name in self._events():
            if mask & _OVERFLOW:
                return None
            if not mask & _FOLDER and number in self._folders and not name.endswith(_PYTHON):
                found.add(os.path.join(self._folders[number], name))
        return found

    def _events(self) -> Iterator[tuple[int, int, str]]:
        with contextlib.suppress(OSError):  # no more events, or the user's code has closed the descriptor
            while data := os.read(self._descriptor, 2**16):
                while data:
                    number, mask, _, length = _EVENT.unpack_from(data)
                    yield number, mask, os.fsdecode(data[_EVENT.size : _EVENT.size + length].rstrip(b"\0"))
                    data = data[_EVENT.size + length :]


def _walk(folder: str) -> Iterator[str]:
    """The folder and its subfolders that may hold data of the project."""
    if os.path.join(folder, "").startswith(INSTALLED) or os.path.exists(os.path.join(folder, "pyvenv.cfg")):
        return
    yield folder
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False) and not entry.name.startswith((".", "__pycache__", "node_modules")):
                yield from _walk(entry.path)
