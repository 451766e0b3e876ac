"""Messages between the process of a job and its caller: for each, a line of its digest and its JSON.

The user's code runs in the same process. If it writes into the channel by mistake, the digest reveals the error. It is
no defence against code that forges one.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Iterator
from typing import Any

from shapeproof.files import sha256

MOST = 2**28
"""Maximum length of a message in bytes."""


class GarbledError(Exception):
    """The bytes are no message."""


def frame(message: Any) -> bytes:
    """Return the message as bytes."""
    body = json.dumps(message)
    return f"{sha256(body)} {body}\n".encode()


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
            GarbledError: the bytes are no message.
        """
        self._left += data
        if len(self._left) > MOST:
            raise GarbledError
        if b"\n" in data:
            *lines, self._left = self._left.split(b"\n")
            yield from map(_message, map(bytes, lines))


class Channel:
    """The channel of a process for messages; usable while its descriptor is still the original file."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._process = os.getpid()
        self._file = self._identity()

    def say(self, message: Any) -> None:
        """Write a message, unless this is a process that the user's code has forked.

        Raises:
            OSError: the user's code has closed the descriptor.
        """
        if os.getpid() != self._process:
            return
        if self._identity() != self._file:
            raise OSError(None, "the code of the model has closed the descriptor of the answer")
        self._socket.sendall(frame(message))

    def hear(self) -> Iterator[Any]:
        """Yield the messages that arrive until the other end is closed."""
        frames = Frames()
        with contextlib.suppress(ConnectionResetError):  # it was closed before all that was said had been read
            while data := self._socket.recv(2**16):
                yield from frames.feed(data)

    def _identity(self) -> tuple[int, int]:
        found = os.fstat(self._socket.fileno())
        return found.st_dev, found.st_ino


def _message(line: bytes) -> Any:
    known, _, body = line.partition(b" ")
    if known != sha256(body).encode():
        raise GarbledError
    try:
        return json.loads(body)
    except (ValueError, RecursionError):  # it was forged
        raise GarbledError from None
