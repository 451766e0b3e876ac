"""Reads files of bounded length, and writes files so that no reader sees half a file, even if the process is killed.

A regular file is replaced as a whole, through links to it, and keeps its permissions. Anything else (a device, a FIFO,
the standard output by its path) is written to in place.
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

from shapeproof.constraints.errors import UsageError

_STREAMS = ("/dev/", "/proc/")
"""Folders whose files stand for something else and cannot be replaced."""


MOST = 2**28
"""Maximum number of bytes read from a file; every report, lock, spec and certificate is shorter."""


def read_bounded(path: Path) -> bytes:
    """Return the content of a file, which may be endless.

    Raises:
        OSError: the file cannot be read, or is too long.
    """
    with path.open("rb") as file:
        content = file.read(MOST + 1)
    if len(content) > MOST:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    return content


def given_file(path: str | Path) -> bytes:
    """Return the content of a file that the user names.

    Raises:
        UsageError: the file cannot be read, or is too long.
    """
    try:
        return read_bounded(Path(path))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None


@contextlib.contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Word a failure to write a file that the user names.

    Raises:
        UsageError: the file cannot be written.
    """
    try:
        yield
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}") from None


def sha256(content: bytes | str) -> str:
    """Return the digest of a content: equal digests, equal contents.

    >>> sha256("n >= 1") == sha256(b"n >= 1")
    True
    """
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def write_whole(path: Path, text: str) -> None:
    """Write a file, or leave the old one unchanged.

    Raises:
        OSError: the file cannot be written.
    """
    with whole_file(path) as file:
        file.write(text.encode())


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Yield a file that replaces `path` when the block ends; if an exception ends the block, `path` stays unchanged.

    Raises:
        OSError: the file cannot be written.
    """
    mode = _mode(path)
    if (mode is not None and not stat.S_ISREG(mode)) or str(path.absolute()).startswith(_STREAMS):
        buffer = io.BytesIO()
        yield buffer
        with path.open("ab") as stream:  # the file behind a path such as /dev/stdout may already have content
            stream.write(buffer.getvalue())
        return
    target = Path(os.path.realpath(path))
    new = target.parent / f".{uuid.uuid4().hex}.partial"
    try:
        with new.open("x+b") as file:
            yield file
            file.flush()
            if mode is not None:
                os.fchmod(file.fileno(), stat.S_IMODE(mode))
            os.fsync(file.fileno())
        new.replace(target)
    finally:
        new.unlink(missing_ok=True)


def _mode(path: Path) -> int | None:
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None
