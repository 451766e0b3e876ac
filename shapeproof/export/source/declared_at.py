"""The line of a declaration: of the Dim or relation if the user's file contains it exactly once, else of the call.

The line is read off the call stack and the text of the file. A Dim that the calling file does not make is sought in
the user's other loaded files.
"""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import sys
import sysconfig
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import TypeAlias

from shapeproof.constraints.records.decisions import SourceLocation
from shapeproof.export.shim.callers import OURS, outwards
from shapeproof.export.source.frames import is_users_file
from shapeproof.export.source.names import parsed
from shapeproof.wording import cell_name

Where: TypeAlias = Callable[[str], SourceLocation | None]
"""Returns the line of a Dim, by its name, or of a relation; None if it is unknown."""

_MAKERS = {"Dim", "ShapeVar", "IntVar"}
_SCRIPTS = sysconfig.get_path("scripts")


def nowhere(_: str) -> None:
    """Return None: the place of every declaration is unknown."""


def in_the_call() -> Where:
    """Search the file that calls this project now; a declaration that is not found there is at the line of the call.

    For a call from an installed program, or from text in no file, every place is unknown.
    """
    frame = next((frame for frame in outwards() if not frame.f_code.co_filename.startswith(OURS)), None)
    return nowhere if frame is None else _in(frame.f_code.co_filename, frame.f_lineno)


def in_the_file_of(made_by: object) -> Where:
    """Search the file of the function that makes the declarations; otherwise the place is the function's first line."""
    try:
        return _in(inspect.getsourcefile(made_by) or "<", inspect.getsourcelines(made_by)[1])  # type: ignore[arg-type]
    except (TypeError, OSError):  # a callable object without source, or no file
        return nowhere


def _in(file: str, line: int) -> Where:
    return functools.partial(_where, file=file, line=line) if _is_users(file) else nowhere


def _where(name: str, *, file: str, line: int) -> SourceLocation:
    others = _users_files(len(sys.modules)) if file.endswith(".py") and name.isidentifier() else ()
    naming = ((each, text) for each in others if name in (text := _text(each)))
    found = _places(name, [(file, _text(file))]) or _places(name, naming)
    return found[0] if len(found) == 1 else SourceLocation(file, line)


def _text(file: str) -> str:
    """Return what a file holds now; it may be edited between two exports."""
    return "".join(linecache.getlines(file))


def _places(name: str, texts: Iterable[tuple[str, str]]) -> list[SourceLocation]:
    """The places in these files, with their texts, where a declaration is written."""
    return [SourceLocation(file, line) for file, text in texts for line in _written(text).get(name, ())]


@functools.lru_cache(maxsize=1)
def _users_files(_: int) -> set[str]:
    """The files of the loaded modules that are not installed; found once for so many modules, not once per Dim."""
    modules = [module for module in list(sys.modules.values()) if type(module) is ModuleType]
    files = (str(vars(module).get("__file__")) for module in modules)
    return {file for file in files if file.endswith(".py") and _is_users(file)}


def _is_users(file: str) -> bool:
    return cell_name(file) is not None or (is_users_file(file) and not file.startswith(_SCRIPTS))


@functools.lru_cache(maxsize=64)
def _written(source: str) -> dict[str, list[int]]:
    """The lines of each `Dim("name")` or `ShapeVar("name")` of a text by its name, and of what may be a relation."""
    found: dict[str, list[int]] = {}
    for node in ast.walk(parsed(source)):
        match node:
            case ast.Call(func=ast.Name(maker) | ast.Attribute(attr=maker), args=[ast.Constant(str() as name), *_]):
                if maker in _MAKERS:
                    found.setdefault(name, []).append(node.lineno)
            case ast.Constant(str() as text) if not text.isidentifier():
                found.setdefault(text, []).append(node.lineno)
            case _:
                pass
    return found
