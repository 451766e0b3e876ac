"""Programs in PT2 archives: written atomically, and checked before torch loads them.

To read an archive, torch unpickles its contents and evaluates the texts of its expressions. So an archive is checked
first: its parts must match their checksums, its pickles must load under `weights_only`, its expressions must be
expressions over sizes, and it must hold no compiled code. The program itself is code: do not run a program of unknown
origin.
"""

from __future__ import annotations

import ast
import io
import json
import math
import re
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import sympy
import torch
import torch.utils._sympy.functions
from torch.export.pt2_archive._package import PT2ArchiveReader, load_pt2, package_pt2

from shapeproof.files import whole_file

_DATA = ("models/", "data/weights/", "data/constants/", "data/sample_inputs/", "extra/", ".data/")
_MARKS = frozenset({"archive_format", "archive_version", "byteorder", "version"})
_CONFIGS = ("_weights_config.json", "_constants_config.json")


class UnsafeArchiveError(ValueError):
    """The archive is damaged, or holds code beside the program."""


def save_archive(path: str, programs: Mapping[str, torch.export.ExportedProgram], texts: Mapping[str, str]) -> None:
    """Write programs and texts by name as one PT2 archive."""
    with whole_file(Path(path)) as file:
        package_pt2(file, exported_programs=dict(programs), extra_files=dict(texts))


def load_archive(path: str) -> tuple[dict[str, torch.export.ExportedProgram], dict[str, str]]:
    """Load the programs and the texts of a PT2 archive, by name.

    Raises:
        UnsafeArchiveError: the archive is damaged, or holds code beside the program.
        OSError: the archive cannot be read.
    """
    _check(path)
    return (found := load_pt2(path)).exported_programs, found.extra_files


def _check(path: str) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            _check_whole(archive, path)
    except (zipfile.BadZipFile, NotImplementedError, EOFError) as error:
        raise UnsafeArchiveError(str(error) or "it is no archive") from None
    reader = PT2ArchiveReader(path)
    names = reader.get_file_names()
    for name in names:
        if name not in _MARKS and not name.startswith(_DATA):
            raise UnsafeArchiveError(f"{name} is no part of a program")
    for name in names:
        _check_part(reader, name)


def _check_whole(archive: zipfile.ZipFile, path: str) -> None:
    """Check the length and checksum of each part, and that none is compressed, so that all fit into memory."""
    entries = archive.infolist()
    if len({entry.filename for entry in entries}) < len(entries):
        raise UnsafeArchiveError("it has two parts of one name")
    packed = any(entry.compress_type != zipfile.ZIP_STORED for entry in entries)
    if packed or sum(entry.file_size for entry in entries) > Path(path).stat().st_size:
        raise UnsafeArchiveError("it has a part that is compressed")
    if (damaged := archive.testzip()) is not None:
        raise UnsafeArchiveError(f"its part {damaged} is not as it was written")


def _check_part(reader: PT2ArchiveReader, name: str) -> None:
    if name.startswith("models/"):
        for text in _expressions(json.loads(reader.read_string(name))):
            _check_expression(text)
    elif name.endswith(_CONFIGS):
        folder, _, _ = name.rpartition("/")
        for part in json.loads(reader.read_string(name))["config"].values():
            _check_payload(reader, folder, part)
    elif name.endswith(".pt"):
        _check_pickle(name, reader.read_bytes(name))


def _check_payload(reader: PT2ArchiveReader, folder: str, part: Mapping[str, Any]) -> None:
    name = f"{folder}/{part['path_name']}"
    if not part["path_name"].startswith(("weight_", "tensor_")):
        raise UnsafeArchiveError(f"{name} is an object, and no tensor")
    if part["use_pickle"]:
        _check_pickle(name, reader.read_bytes(name))
    elif not reader.archive_file.get_record_size(name) and math.prod(s["as_int"] for s in part["tensor_meta"]["sizes"]):
        raise UnsafeArchiveError(f"{name} is empty, and says that it is not")


def _check_pickle(name: str, content: bytes) -> None:
    """Check a pickle with the restricted reader; torch later reads it unrestricted, with the same result."""
    if not content:
        return
    try:
        with warnings.catch_warnings(action="ignore"):  # warnings about pickle protocols that torch may not know
            torch.load(io.BytesIO(content), weights_only=True)
    except Exception as error:  # noqa: BLE001 - whatever a damaged pickle leads to
        raise UnsafeArchiveError(f"{name} is not data alone: {type(error).__name__}") from None


def _expressions(node: Any) -> Iterator[str]:
    """The texts that torch evaluates."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "expr_str":
                yield value
            elif key == "guards_code":
                yield from value
            else:
                yield from _expressions(value)
    elif isinstance(node, list):
        for value in node:
            yield from _expressions(value)


_NODES = (
    ast.Expression, ast.Call, ast.keyword, ast.Name, ast.Constant, ast.Load, ast.BinOp, ast.UnaryOp, ast.BoolOp,
    ast.IfExp, ast.Compare, ast.Subscript, ast.Attribute, ast.Tuple, ast.operator, ast.unaryop, ast.boolop, ast.cmpop,
)  # fmt: skip
_METHODS = frozenset({"size", "stride", "storage_offset", "numel", "dim"})
_PLAIN = frozenset({"abs", "int", "float", "len", "max", "min", "round"})


def _check_expression(text: str) -> None:
    try:
        nodes = list(ast.walk(ast.parse(text, mode="eval")))
    except (SyntaxError, TypeError, ValueError, RecursionError, MemoryError):
        nodes = []
    if not nodes or not all(isinstance(node, _NODES) and _is_harmless(node) for node in nodes):
        raise UnsafeArchiveError("it holds a text that is no expression over sizes")


def _is_harmless(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="type"), args=[_], keywords=[]):  # with more arguments `type` creates a class
            return True
        case ast.Call(func=called):
            texts = (each.value for each in ast.walk(node) if isinstance(each, ast.Constant))
            return _is_known(called) and all(_is_plain(text) for text in texts if isinstance(text, str))
        case ast.Attribute(attr=name):
            return not name.startswith("_") or name.startswith("_sym_")
    return True


def _is_known(called: ast.expr) -> bool:
    """True if a called function makes a term or reads a size."""
    match called:
        case ast.Name(id=name):
            return name in _PLAIN or _is_function(name)
        case ast.Attribute(value=ast.Name(id="math")):
            return True
        case ast.Attribute(value=ast.Name(id="torch"), attr=name):
            return name.lstrip("_").startswith("sym_")
        case ast.Attribute(attr=name):
            return name in _METHODS
    return False


def _is_plain(text: str) -> bool:
    """True if a text is a name or a number: some functions of sympy evaluate their text."""
    return re.fullmatch(r"[\w.+-]*", text) is not None and "__" not in text


def _is_function(name: str) -> bool:
    """True if a call of that name makes a term."""
    found = getattr(torch.utils._sympy.functions, name, None) or getattr(sympy, name, None)
    return isinstance(found, type) and issubclass(found, sympy.Basic)
