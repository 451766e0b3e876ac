"""Messages between the process of a job and its caller, as frames: magic number, length, digest, JSON.

The user's code runs in the same process. If it writes into the channel by mistake, the digest reveals the error. A
frame is no defence against code that forges one.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Iterator
from typing import Any

_HEAD = struct.Struct(">4sI16s")
_MARK = b"spf1"
MOST = 2**28
"""Maximum length of a message in bytes."""


class GarbledError(Exception):
    """The bytes are no valid frame."""


def frame(message: Any) -> bytes:
    """Return the message as bytes."""
    body = json.dumps(message).encode()
    return _HEAD.pack(_MARK, len(body), _digest(body)) + body


class Frames:
    """Collects bytes as they arrive and returns complete messages.

    >>> frames = Frames()
    >>> [list(frames.feed(bytes([byte]))) for byte in frame("hello")][-1]
    ['hello']
    """

    def __init__(self) -> None:
        self._left = bytearray()

    def feed(self, data: bytes) -> Iterator[Any]:
        """Yield the messages that these bytes complete.

        Raises:
            GarbledError: the bytes are no frame.
        """
        self._left += data
        while len(self._left) >= len(_MARK):
            if not self._left.startswith(_MARK):
                raise GarbledError
            if len(self._left) < _HEAD.size:
                return
            _, length, known = _HEAD.unpack_from(self._left)
            if length > MOST:
                raise GarbledError
            end = _HEAD.size + length
            if len(self._left) < end:
                return
            body = bytes(self._left[_HEAD.size : end])
            del self._left[:end]
            yield _message(body, known)


def write_all(descriptor: int, data: bytes) -> None:
    """Write bytes to a pipe, which may take a part of them at a time."""
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


class Channel:
    """The channel of a process for messages; usable while its descriptor is still the original file."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._process = os.getpid()
        self._file = _identity(descriptor)

    def say(self, message: Any) -> None:
        """Write a message, unless this is a process that the user's code has forked.

        Raises:
            OSError: the user's code has closed the descriptor.
        """
        if os.getpid() != self._process:
            return
        if _identity(self._descriptor) != self._file:
            raise OSError(None, "the code of the model has closed the descriptor of the answer")
        write_all(self._descriptor, frame(message))


def _message(body: bytes, known: bytes) -> Any:
    if _digest(body) != known:
        raise GarbledError
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise GarbledError from None


def _digest(body: bytes) -> bytes:
    return hashlib.sha256(body).digest()[:16]


def _identity(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino
