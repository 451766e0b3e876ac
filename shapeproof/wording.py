"""Short forms of errors, files and lines for messages."""

from __future__ import annotations

from pathlib import Path


def short(file: str) -> str:
    """The path as seen from here, if it is below here; an installed file by its place in its package."""
    _, installed, inside = file.rpartition("/site-packages/")
    if installed:
        return inside
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except ValueError:
        return file


def first_line(error: BaseException | None) -> str:
    """What an error says first; nothing where it says nothing."""
    return next(iter(str(error).strip().splitlines()), "")


def with_kind(error: BaseException | None) -> str:
    """The kind of an error and what it says first, as Python prints them."""
    return f"{type(error).__name__}: {first_line(error)}"
