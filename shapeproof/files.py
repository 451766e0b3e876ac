"""Reads files of bounded length, and writes files that are never seen half written, whenever the process is killed.

A regular file is replaced as a whole, through links to it, and keeps its permissions. What is none (a device, a FIFO,
the standard output by its path) is written to as it stands.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO

_NO_UNNAMED = frozenset({errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT})
"""What a system that has no files without a name answers to the wish for one; ENOENT is also an absent folder."""
_STREAMS = ("/dev/", "/proc/")
"""Folders whose files stand for something else, so that another file cannot take their place."""


MOST = 2**28
"""Bytes that are read of a file at most: no report, lock, spec or certificate is as long."""


def read_bounded(path: Path) -> bytes:
    """The content of a file, which need not have an end.

    Raises:
        OSError: it cannot be read, or is too long.
    """
    with path.open("rb") as file:
        content = file.read(MOST + 1)
    if len(content) > MOST:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    return content


def sha256(content: bytes | str) -> str:
    """The digest of a content: equal digests, equal contents.

    >>> sha256("n >= 1") == sha256(b"n >= 1")
    True
    """
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def write_whole(path: Path, text: str) -> None:
    """Write a file, or leave what was there.

    Raises:
        OSError: it cannot be written.
    """
    with whole_file(path) as file:
        file.write(text.encode())


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to, which takes its place when the block ends, and never if an exception ends it.

    Raises:
        OSError: it cannot be written.
    """
    mode = _mode(path)
    if (mode is not None and not stat.S_ISREG(mode)) or str(path.absolute()).startswith(_STREAMS):
        buffer = io.BytesIO()
        yield buffer
        with path.open("ab") as stream:  # what a path such as /dev/stdout stands for may hold something already
            stream.write(buffer.getvalue())
        return
    target = Path(os.path.realpath(path))
    with contextlib.closing(_Unnamed(target)) as new:
        yield new.file
        new.file.flush()
        if mode is not None:
            os.fchmod(new.file.fileno(), stat.S_IMODE(mode))
        os.fsync(new.file.fileno())
        new.take_place()


def _mode(path: Path) -> int | None:
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None


class _Unnamed:
    """A file without a name, which is gone with the process: nothing half written can be left in the folder.

    Where the file system has no such files, it has a name of its own.
    """

    def __init__(self, target: Path) -> None:
        self._target = target
        self._name: Path | None = None
        try:
            descriptor = os.open(target.parent, os.O_TMPFILE | os.O_RDWR, 0o666)
        except (AttributeError, OSError) as error:
            if getattr(error, "errno", errno.EOPNOTSUPP) not in _NO_UNNAMED:
                raise
            self._name = self._free_name()
            descriptor = os.open(self._name, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666)
        self.file: IO[bytes] = os.fdopen(descriptor, "w+b")

    def take_place(self) -> None:
        """Give the file its name: only a whole file is ever seen under any name, if file systems allow it."""
        if self._name is None:
            with contextlib.suppress(FileExistsError):
                self._link(self._target)
                return
            self._name = self._free_name()
            self._link(self._name)
        self._name.replace(self._target)

    def close(self) -> None:
        """Leave nothing but what has taken its place."""
        self.file.close()
        if self._name is not None:
            self._name.unlink(missing_ok=True)

    def _link(self, name: Path) -> None:
        source = os.open("/proc/self/fd", os.O_RDONLY)
        try:  # only with a folder does Python call what follows the link
            os.link(str(self.file.fileno()), name, src_dir_fd=source, follow_symlinks=True)
        finally:
            os.close(source)

    def _free_name(self) -> Path:
        return self._target.parent / f".{uuid.uuid4().hex}.partial"
