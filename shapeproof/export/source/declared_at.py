"""Where a declaration is written: the line of the user's call, or of the Dim or the relation if that file has it once.

Read off the call stack and the text of the file. Nothing is decided here.
"""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import sysconfig
from collections.abc import Callable
from typing import TypeAlias

from shapeproof.constraints.records.decisions import SourceLocation
from shapeproof.export.shim.callers import OURS, outwards

Where: TypeAlias = Callable[[str], SourceLocation | None]
"""Where the Dim of a name, or a relation, is written; None if that is not known."""

_INSTALLED = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib", "scripts"))


def nowhere(_: str) -> None:
    """Nothing is known of where anything is written."""


def in_the_call() -> Where:
    """Looks into the file that calls this project now; what is not found there is where the call is.

    Nothing is known of a call from an installed program, or from text that is in no file.
    """
    frame = next((frame for frame in outwards() if not frame.f_code.co_filename.startswith(OURS)), None)
    return nowhere if frame is None else _in(frame.f_code.co_filename, frame.f_lineno)


def in_the_file_of(made_by: object) -> Where:
    """Looks into the file of the function that makes the declarations; what is not found there is where it begins."""
    try:
        return _in(inspect.getsourcefile(made_by) or "<", inspect.getsourcelines(made_by)[1])  # type: ignore[arg-type]
    except (TypeError, OSError):  # an object that only can be called, or no file
        return nowhere


def _in(file: str, line: int) -> Where:
    return nowhere if file.startswith(("<", *_INSTALLED)) else functools.partial(_where, file=file, line=line)


def _where(name: str, *, file: str, line: int) -> SourceLocation:
    found = _written(file).get(name, ())
    return SourceLocation(file, found[0] if len(found) == 1 else line)


@functools.lru_cache(maxsize=1)
def _written(file: str) -> dict[str, list[int]]:
    """The lines of a file: of each `Dim("name", ...)` by the name, and of each text that may be a relation."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):  # a page with programs in it, a notebook
        return {}
    found: dict[str, list[int]] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name("Dim") | ast.Attribute(attr="Dim"), args=[ast.Constant(str() as name), *_]):
                found.setdefault(name, []).append(node.lineno)
            case ast.Constant(str() as text) if not text.isidentifier():
                found.setdefault(text, []).append(node.lineno)
            case _:
                pass
    return found
