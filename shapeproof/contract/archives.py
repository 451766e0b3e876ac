"""Find the report or the contract in a file made from a program. Only its text is read.

A .pt2 archive is a ZIP file. `torch.export.save` writes a graph's custom metadata into `models/<name>.json`; the report
is there under the name NOTE. Several programs that serve one domain are saved with one common report, as a separate
file of the archive; so is a package of AOTInductor. An ONNX file has the contract among its metadata properties. A
program of ExecuTorch has it in a file beside it: `model.pte.contract.json`.
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
"""The name of a report in a graph's custom metadata and among the files of an archive."""

PROPERTY = "shapeproof_contract"
"""The name of a contract among the metadata properties of an ONNX file."""
BESIDE = ".contract.json"
"""The end of the name of the file that holds the contract of a file of ExecuTorch."""

_DAMAGED = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError, RuntimeError, OverflowError, KeyError,
)  # fmt: skip
"""The errors that Python raises on archives that are damaged, encrypted, or compressed by an unknown method."""


STARTS = 6
"""The number of bytes that tell what a file is."""


def kind_of(start: bytes) -> str:
    """Return "archive", "onnx", "executorch" or "other" for the first bytes of a file.

    torch writes the version of an ONNX file first: field 1, a number.
    """
    if start.startswith(b"PK\x03\x04"):
        return "archive"
    if start.startswith(b"\x08"):
        return "onnx"
    return "executorch" if start[4:6] == b"ET" else "other"


class _InAnotherFile(ValueError):
    """The file is a program of ExecuTorch, which holds no texts."""


@contextlib.contextmanager
def opened(source: str | Path | IO[Any]) -> Iterator[IO[bytes]]:
    """Open a file to read from; a file object from the caller stays open.

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
    """Return the text of the report in a file, and the file's name for errors; `what` says in an error what is wrong.

    Raises:
        UsageError: the file cannot be read, or holds no report.
    """
    name = str(source if isinstance(source, str | Path) else getattr(source, "name", "the file"))
    try:
        with opened(source) as file:
            return text_of_archive(file), name
    except _InAnotherFile:
        return saved_text(f"{name}{BESIDE}", what)
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise UsageError(f"{name} {what}: {error}") from None


def text_of_archive(file: IO[bytes]) -> bytes | str:
    """Return the text of the report in an archive; for any other file, its whole content.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is damaged or too long, or has no report; the message says which.
    """
    start = file.read(STARTS)
    kind = kind_of(start)
    if kind == "onnx":
        from shapeproof.contract.onnx_files import property_of

        found = property_of(file, PROPERTY)
        if found is None:
            raise ValueError(f"it is an ONNX file without the metadata property {PROPERTY}")
        return found
    if kind == "executorch":
        raise _InAnotherFile(f"a program of ExecuTorch has its contract beside it, in a file named ...{BESIDE}")
    if kind != "archive":
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
    """Return the report in a saved program's custom metadata, or None."""
    try:
        custom = json.loads(program)["graph_module"]["metadata"].get("custom")
        found = json.loads(custom)[NOTE] if isinstance(custom, str) else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return found if isinstance(found, str) else None
