"""Finds the report in the .pt2 archive of a saved program, which is a ZIP file: nothing but its text is read.

`torch.export.save` writes what a program's graph carries along into `models/<name>.json`, under the name NOTE. Several
programs that serve one domain are saved with one report for all, as a file of its own.
"""

from __future__ import annotations

import contextlib
import io
import json
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from shapeproof.constraints.errors import UsageError
from shapeproof.files import MOST

NOTE = "shapeproof_report"
"""What a report is called, in what a graph carries along and among the files of an archive."""

_DAMAGED = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError, RuntimeError, OverflowError, KeyError,
)  # fmt: skip
"""What Python raises on archives that are damaged, encrypted or packed in a way that it does not know."""


@contextlib.contextmanager
def opened(source: str | Path | IO[Any]) -> Iterator[IO[bytes]]:
    """A file to read from; one that is given stays open.

    Raises:
        OSError: it cannot be read.
    """
    if isinstance(source, str | Path):
        with Path(source).open("rb") as file:
            yield file
        return
    content = source.read(MOST + 1) if not _is_binary_file(source) else None
    if content is None:
        yield source
    else:
        yield io.BytesIO(content.encode() if isinstance(content, str) else content)


def _is_binary_file(source: IO[Any]) -> bool:
    seekable = getattr(source, "seekable", None)
    return not isinstance(source, io.TextIOBase) and seekable is not None and bool(seekable())


def saved_text(source: str | Path | IO[Any], what: str) -> tuple[bytes | str, str]:
    """The text of the report in a file, and what the file is called in an error; `what` the file is expected to be.

    Raises:
        UsageError: it cannot be read, or holds none.
    """
    name = str(source if isinstance(source, str | Path) else getattr(source, "name", "the file"))
    try:
        with opened(source) as file:
            return text_of_archive(file), name
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise UsageError(f"{name} {what}: {error}") from None


def text_of_archive(file: IO[bytes]) -> bytes | str:
    """The text of the report in an archive; of another file, all that is in it.

    Raises:
        OSError: it cannot be read.
        ValueError: it is damaged or too long, or an archive without a report; the message says so.
    """
    start = file.read(4)
    if start != b"PK\x03\x04":
        content = start + file.read(MOST)
        if len(content) > MOST:
            raise ValueError("it is too long")
        return content
    try:
        with zipfile.ZipFile(file) as archive:
            return _report_in(archive)
    except _DAMAGED:
        raise ValueError("the archive is damaged") from None


def _report_in(archive: zipfile.ZipFile) -> str:
    names = [entry.filename for entry in archive.infolist()]
    whole = [name for name in names if name.endswith(f"/extra/{NOTE}")]
    if whole:
        return _part(archive, whole[0])
    programs = [name for name in names if name.partition("/")[2].startswith("models/") and name.endswith(".json")]
    if not programs:
        raise ValueError("it is an archive without an exported program; save the contract beside it")
    if len(programs) > 1:
        raise ValueError("it is an archive of several programs, without a report on them together")
    found = _noted(_part(archive, programs[0]))
    if found is None:
        raise ValueError("the program in it was not exported by this package")
    return found


def _part(archive: zipfile.ZipFile, name: str) -> str:
    if archive.getinfo(name).file_size > MOST:
        raise ValueError(f"its part {name} is too long")
    with archive.open(name) as part:
        return part.read(MOST).decode()


def _noted(program: str) -> str | None:
    """The report that a program carries along, as it is saved."""
    try:
        custom = json.loads(program)["graph_module"]["metadata"].get("custom")
        found = json.loads(custom)[NOTE] if isinstance(custom, str) else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return found if isinstance(found, str) else None
