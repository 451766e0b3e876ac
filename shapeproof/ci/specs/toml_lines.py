"""Finds the line of a key in a TOML document, which the standard parser does not record."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterator, Sequence
from typing import Any


def line_of(text: str, path: Sequence[str | int]) -> int:
    r"""Return the line of the statement that first gives the path a value; 1 if the document has no such path.

    >>> line_of("[dims.batch]\n\nmax = 8\n", ["dims", "batch", "max"])
    3
    """
    found = _lines(text)
    for key in path:
        if not isinstance(found, int):
            try:
                found = found[key]
            except (LookupError, TypeError):
                return 1
    return _first(found)


@functools.lru_cache(maxsize=8)
def _lines(text: str) -> Any:
    """The document with the line of each assignment in place of its value, and of a header as one more entry."""
    marked = []
    for line, statement in _statements(text):
        is_header = statement.lstrip().startswith("[")
        marked.append(f'{statement}\n"\\u0001" = {line}' if is_header else f"{_key_of(statement)} = {line}")
    return tomllib.loads("\n".join(marked))


def _first(found: Any) -> int:
    if isinstance(found, int):
        return found
    return min(map(_first, found.values() if isinstance(found, dict) else found), default=1)


_ENDS = ("]", '"""', "'''")
"""The last line of a statement of several lines contains one of these."""


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Yield each header and each assignment with its line. A statement ends where the lines so far parse."""
    lines = text.split("\n")
    begin = 0
    for end in range(1, len(lines) + 1):
        statement = "\n".join(lines[begin:end])
        if (end - begin == 1 or any(mark in lines[end - 1] for mark in _ENDS)) and (
            found := _parsed(statement)
        ) is not None:
            if found:
                yield begin + 1, statement
            begin = end


def _key_of(assignment: str) -> str:
    """The text before the equals sign, which may stand in a quoted key, too."""
    parts = assignment.split("=")
    keys = ("=".join(parts[:count]) for count in range(1, len(parts)))
    return next(key for key in keys if _parsed(f"{key} = 0"))


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None
