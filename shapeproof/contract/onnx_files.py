"""Reads a metadata property of an ONNX file: a protobuf message, of which only the outermost fields are read.

The standard library suffices. Each field begins with a number, `8*index + kind`. A field of kind 2 has a length, so
that the graph and its weights are skipped. Field 14 of a model is a property, a message of a key (1) and a value (2).
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import IO

from shapeproof.files import MOST

_KEY, _VALUE, _PROPERTIES = 1, 2, 14
_FIXED = {1: 8, 5: 4}
"""The bytes of the kinds of fields that have no length and are no numbers of varying length."""


def property_of(file: IO[bytes], key: str) -> bytes | None:
    """Return a metadata property of an ONNX file; None if the file has none of that key.

    Raises:
        ValueError: the file is no protobuf message.
    """
    file.seek(0)
    for field, length in _fields(file):
        if field == _PROPERTIES and length <= MOST:
            content = file.read(length)
            message = io.BytesIO(content)
            found = {each: message.read(size) for each, size in _fields(message)}
            if found.get(_KEY) == key.encode():
                return found.get(_VALUE)
    return None


def _fields(file: IO[bytes]) -> Iterator[tuple[int, int]]:
    """Yield index and length of each field that has a length; its content comes next in the file."""
    while (tag := _number(file)) is not None:
        match tag & 7:
            case 0:
                _number(file)
            case 1 | 5 as kind:
                file.seek(_FIXED[kind], io.SEEK_CUR)
            case 2:
                length = _number(file) or 0
                end = file.tell() + length
                yield tag >> 3, length
                file.seek(end)
            case _:
                raise ValueError("it is damaged")


def _number(file: IO[bytes]) -> int | None:
    """Read a number: seven bits a byte, the lowest first; None at the end of the file."""
    value = 0
    for shift in range(0, 70, 7):
        byte = file.read(1)
        if not byte:
            return None
        value |= (byte[0] & 127) << shift
        if byte[0] < 128:
            return value
    raise ValueError("it is damaged")
