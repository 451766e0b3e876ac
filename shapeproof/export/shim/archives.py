"""Programs that share their tensors in one archive: written atomically, and checked before torch reads it.

The archive is a file of torch.save, with the tensors of all programs, to which each program's graph and the texts are
added. A pickle knows an object that it has met: a tensor that two programs hold, or one program under two names, is
written once, and read as one tensor. Views of one storage stay views of one storage.

To read a program, torch evaluates the texts of its expressions. So an archive is checked first: its parts must match
their checksums, its pickle must load under `weights_only`, its expressions must be expressions over sizes, and it must
hold no compiled code. The program itself is code: do not run a program of unknown origin.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import io
import json
import re
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from typing import IO, Any

import sympy
import torch
import torch.utils._pytree as pytree
import torch.utils._sympy.functions
from torch._export.serde.serialize import SerializedArtifact, deserialize, serialize

from shapeproof.constraints.errors import UsageError
from shapeproof.wording import said_by

_ROOT = "archive"
"""The folder in which torch.save puts the parts of a file without a name."""
_PART = re.compile(_ROOT + r"/([^/]*|\.data/.*|data/\d+|models/[^/]*\.json|extra/[^/]*)")


_graph_alone = functools.partial(
    serialize, serialize_state_dict=False, serialize_constants=False, serialize_example_inputs=False
)


class UnsafeArchiveError(ValueError):
    """The archive is damaged, or holds code beside the program."""


def save_archive(
    file: IO[bytes], programs: Mapping[str, torch.export.ExportedProgram], texts: Mapping[str, str]
) -> None:
    """Write programs and texts by name as one archive, with each tensor once.

    Raises:
        UsageError: something that the programs hold cannot be written.
    """
    own: dict[int, torch.Tensor] = {}
    try:
        graphs = {name: _graph_alone(program).exported_program for name, program in programs.items()}
        for name, program in programs.items():  # torch writes what it cannot read
            deserialize(SerializedArtifact(graphs[name], program.state_dict, program.constants, b""))
        torch.save({name: _held(program, own) for name, program in programs.items()}, file)
    except Exception as error:  # noqa: BLE001 - torch and pickle raise what they like
        raise UsageError(f"the programs cannot be saved: {said_by(error)}") from None
    with zipfile.ZipFile(file, "a") as archive:
        for name, graph in graphs.items():
            archive.writestr(f"{_ROOT}/models/{name}.json", graph)
        for name, text in texts.items():
            archive.writestr(f"{_ROOT}/extra/{name}", text)


def _held(program: torch.export.ExportedProgram, own: dict[int, torch.Tensor]) -> dict[str, Any]:
    """Return what a program holds beside its graph; `own` is filled: what is written of each tensor, by its id."""

    def written(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and id(value) not in own:  # without the attributes that somebody put onto it
            bare = value.detach()
            kept = torch.nn.Parameter(bare) if isinstance(value, torch.nn.Parameter) else bare
            own[id(value)] = kept.requires_grad_(value.requires_grad)
        return own.get(id(value), value)

    return {
        "state": {name: written(tensor) for name, tensor in program.state_dict.items()},
        "constants": {name: written(tensor) for name, tensor in program.constants.items()},
        "inputs": list(map(written, pytree.tree_leaves(program.example_inputs))),
    }


def texts_in(file: IO[bytes]) -> dict[str, str]:
    """Return the texts of an archive, by name.

    Raises:
        UnsafeArchiveError: the archive is damaged.
    """
    with _opened(file) as archive:
        return {name: archive.read(part).decode() for name, part in _parts(archive, "extra/")}


def programs_in(file: IO[bytes]) -> dict[str, torch.export.ExportedProgram]:
    """Load the programs of an archive, by name; they share the tensors that the saved programs shared.

    Raises:
        UnsafeArchiveError: the archive is damaged, or holds code beside the program.
    """
    with _opened(file) as archive:
        for name in archive.namelist():
            if not _PART.fullmatch(name):
                raise UnsafeArchiveError(f"{name} is no part of a program")
        if (damaged := archive.testzip()) is not None:
            raise UnsafeArchiveError(f"its part {damaged} is not as it was written")
        graphs = {name.removesuffix(".json"): archive.read(part) for name, part in _parts(archive, "models/")}
    for graph in graphs.values():
        for text in _expressions(json.loads(graph)):
            _check_expression(text)
    held = _data(file)
    return {name: _program(graph, **held[name]) for name, graph in graphs.items()}


def _program(
    graph: bytes, state: dict[str, torch.Tensor], constants: dict[str, torch.Tensor], inputs: list[Any]
) -> torch.export.ExportedProgram:
    program = deserialize(SerializedArtifact(graph, state, constants, b""))  # type: ignore[arg-type]  # dicts, as read
    program.example_inputs = pytree.tree_unflatten(inputs, program.call_spec.in_spec)
    return program


def _data(file: IO[bytes]) -> Any:
    """Read the pickle of an archive, which must be data alone."""
    file.seek(0)
    try:
        with warnings.catch_warnings(action="ignore"):  # warnings about pickle protocols that torch may not know
            return torch.load(file, weights_only=True)
    except Exception as error:  # noqa: BLE001 - whatever a damaged pickle leads to
        raise UnsafeArchiveError(f"its pickle is not data alone: {type(error).__name__}") from None


@contextlib.contextmanager
def _opened(file: IO[bytes]) -> Iterator[zipfile.ZipFile]:
    """Open an archive whose parts all fit into memory: none is compressed, and none is there twice."""
    try:
        with zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
            if len({entry.filename for entry in entries}) < len(entries):
                raise UnsafeArchiveError("it has two parts of one name")
            packed = any(entry.compress_type != zipfile.ZIP_STORED for entry in entries)
            if packed or sum(entry.file_size for entry in entries) > file.seek(0, io.SEEK_END):
                raise UnsafeArchiveError("it has a part that is compressed")
            yield archive
    except (zipfile.BadZipFile, NotImplementedError, EOFError) as error:
        raise UnsafeArchiveError(str(error) or "it is no archive") from None


def _parts(archive: zipfile.ZipFile, folder: str) -> Iterator[tuple[str, zipfile.ZipInfo]]:
    """Yield the parts in a folder, each with its name there."""
    start = f"{_ROOT}/{folder}"
    return ((part.filename.removeprefix(start), part) for part in archive.infolist() if part.filename.startswith(start))


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
        case ast.Attribute(value=ast.Attribute(value=ast.Name(id="torch"), attr="compiler"), attr=name):
            return name == "is_exporting"  # a guard of ours asks it
        case ast.Attribute(attr=name):
            return name in _METHODS
    return False


def _is_plain(text: str) -> bool:
    """True if a text is a name or a number: some functions of sympy evaluate their text."""
    return re.fullmatch(r"[\w.+-]*", text) is not None and "__" not in text


def _is_function(name: str) -> bool:
    """True if a call of that name makes a term."""
    if name == "ExprCondPair":  # a part of `Piecewise`, which sympy does not name at its top
        return True
    found = getattr(torch.utils._sympy.functions, name, None) or getattr(sympy, name, None)
    return isinstance(found, type) and issubclass(found, sympy.Basic)
