"""Finds the line of a key in a TOML document, which the standard parser does not record."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

Path: TypeAlias = tuple[str | int, ...]


def line_of(text: str, path: Sequence[str | int]) -> int:
    r"""Return the line of the statement that first gives the path a value; 1 if the document has no such path.

    >>> line_of("[dims.batch]\n\nmax = 8\n", ["dims", "batch", "max"])
    3
    """
    return _lines(text).get(tuple(path), 1)


@functools.lru_cache(maxsize=8)
def _lines(text: str) -> Mapping[Path, int]:
    """The line of every path of a document."""
    found: dict[Path, int] = {}
    tables: dict[Path, int] = {}
    """The number of tables so far in each array of tables."""
    here: Path = ()
    for line, statement, document in _statements(text):
        if statement.lstrip().startswith("["):
            here = _opened(document, tables)
            new: Iterator[Path] = (here[:end] for end in range(1, len(here) + 1))
        else:
            new = ((*here, *path) for path in _paths(document))
        for path in new:
            found.setdefault(path, line)
    return found


_ENDS = ("]", '"""', "'''")
"""The last line of a statement of several lines contains one of these."""


def _statements(text: str) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Yield each header and each assignment with its line and its value when parsed alone.

    A statement ends where the lines so far parse and give a value.
    """
    lines = text.split("\n")
    begin = 0
    for end in range(1, len(lines) + 1):
        if end - begin > 1 and not any(mark in lines[end - 1] for mark in _ENDS):
            continue
        statement = "\n".join(lines[begin:end])
        try:
            document = tomllib.loads(statement)
        except tomllib.TOMLDecodeError:
            continue
        if document:
            yield begin + 1, statement, document
        begin = end


def _opened(header: Any, tables: dict[Path, int]) -> Path:
    """The path of the table that a header opens, in the last table of each array of tables on the path."""
    path: Path = ()
    while header:
        if isinstance(header, list):  # `[[name]]`: the innermost array
            tables[path] = tables.get(path, 0) + 1
            return (*path, tables[path] - 1)
        if path in tables:
            path = (*path, tables[path] - 1)
        ((key, header),) = header.items()
        path = (*path, key)
    return (*path, tables[path] - 1) if path in tables else path


def _paths(value: Any) -> Iterator[Path]:
    """The path of everything inside a value."""
    if not isinstance(value, dict | list):
        return
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield (key,)
        yield from ((key, *rest) for rest in _paths(inner))
