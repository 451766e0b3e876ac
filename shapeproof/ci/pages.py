"""The pages that say what each diagnostic means, and what to do. They are those of the documentation."""

from __future__ import annotations

from pathlib import Path

import shapeproof

_PACKAGE = Path(shapeproof.__file__).parent
_FOLDERS = (_PACKAGE / "errors", _PACKAGE.parent / "docs" / "errors")
"""Where they are: installed, and in a checkout."""


def pages() -> dict[str, str]:
    """The text of each page, by the id of its diagnostic."""
    return {name: path.read_text(encoding="utf-8").rstrip() for name, path in _paths().items()}


def title(page: str) -> str:
    """What a page says that its diagnostic is.

    >>> title(pages()["divides"])
    'a size must be a multiple of a number'
    """
    return page.partition("\n")[0].partition(": ")[2]


def _paths() -> dict[str, Path]:
    return {page.stem: page for folder in _FOLDERS for page in sorted(folder.glob("[a-z]*.md"))}
