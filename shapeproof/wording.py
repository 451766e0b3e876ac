"""Short forms of errors, lines and values for messages."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from shapeproof.constraints.records.decisions import SourceLocation

_LINE = 88
"""The maximal length of a line of code."""


def short(file: str) -> str:
    """Return the path relative to the working directory if it lies below; an installed file from its package on."""
    _, installed, inside = file.rpartition("/site-packages/")
    if installed:
        return inside
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except ValueError:
        return file


def line_text(where: SourceLocation) -> str:
    """Return a line as `model.py:12`."""
    return place_text(where.file, where.line)


def place_text(file: str, line: int | None) -> str:
    """Return a line as `model.py:12`, and one of a notebook as IPython's tracebacks do: `Cell In[2], line 4`."""
    cell = cell_name(file)
    return f"{cell}, line {line}" if cell else f"{short(file)}:{line}"


def file_text(file: str) -> str:
    """Return a file as `short` does, and the cell of a notebook as IPython's tracebacks do."""
    return cell_name(file) or short(file)


def cell_name(file: str) -> str | None:
    """Return the cell that IPython runs under this file name, `Cell In[2]`; None if it is none."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    named = getattr(getattr(shell, "compile", None), "format_code_name", lambda _: None)(file)
    return None if named is None else " ".join(named)


def values_text(values: Mapping[str, object], names: Mapping[str, str] | None = None) -> str:
    """Return values by their names, or by the user's: `n = 4, x.shape[1] = 8`."""
    return ", ".join(f"{(names or {}).get(name, name)} = {value}" for name, value in values.items())


def first_line(error: BaseException | None) -> str:
    """Return the first line of an error's message; empty if the message is empty, or the error fails to print it."""
    try:
        return next(iter(str(error).strip().splitlines()), "").rstrip()
    except Exception:  # noqa: BLE001 - `__str__` is the user's code
        return ""


def with_kind(error: BaseException | None) -> str:
    """Return the kind of an error and the first line of its message, as Python prints them.

    >>> with_kind(ValueError(" one ")), with_kind(ValueError())
    ('ValueError: one', 'ValueError')
    """
    first = first_line(error)
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def said_by(error: BaseException) -> str:
    """Return the first line of an error, or its type if it has no message."""
    return first_line(error) or type(error).__name__


def listed(start: str, items: Iterable[str]) -> list[str]:
    """Return a list as lines of code: one line if it fits, else a line for each item.

    >>> listed("values = ", map(str, range(3)))
    ['values = [0, 1, 2]']
    """
    texts = list(items)
    line = f"{start}[{', '.join(texts)}]"
    return [line] if len(line) <= _LINE else [f"{start}[", *(f"    {text}," for text in texts), "]"]
