"""Short forms of errors, files and lines for messages."""

from __future__ import annotations

from pathlib import Path


def short(file: str) -> str:
    """Return the path relative to the working directory if it lies below; an installed file from its package on."""
    _, installed, inside = file.rpartition("/site-packages/")
    if installed:
        return inside
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except ValueError:
        return file


def first_line(error: BaseException | None) -> str:
    """Return the first line of an error's message; empty if the message is empty."""
    return next(iter(str(error).strip().splitlines()), "")


def with_kind(error: BaseException | None) -> str:
    """Return the kind of an error and the first line of its message, as Python prints them."""
    return f"{type(error).__name__}: {first_line(error)}"
