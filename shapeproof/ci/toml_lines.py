"""Finds the line of a TOML document at which a key is given. The standard parser forgets where it read what."""

from __future__ import annotations

import functools
import operator
import tomllib
from collections.abc import Sequence
from typing import Any


def line_of(text: str, path: Sequence[str | int]) -> int:
    r"""The line where the statement begins that first gives the path a value; 1 if the document has no such path.

    A statement ends where the text up to there is a whole document; the one that brings the path in is looked for.

    >>> line_of("[dims.batch]\n\nmax = 8\n", ["dims", "batch", "max"])
    3
    """
    lines = text.split("\n")
    begin = 0
    for end in range(1, len(lines) + 1):
        try:
            document = tomllib.loads("\n".join(lines[:end]))
        except tomllib.TOMLDecodeError:
            continue
        if _has(document, path):
            return begin + 1 + _blank_lines(lines[begin:end])
        begin = end
    return 1


def _has(document: Any, path: Sequence[str | int]) -> bool:
    try:
        functools.reduce(operator.getitem, path, document)
    except (KeyError, IndexError, TypeError):
        return False
    return True


def _blank_lines(statement: Sequence[str]) -> int:
    """How many blank lines and comments stand before it."""
    return next((i for i, line in enumerate(statement) if line.strip() and not line.lstrip().startswith("#")), 0)
