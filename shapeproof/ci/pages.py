"""The documentation page of each diagnostic: its meaning and its remedies."""

from __future__ import annotations

from pathlib import Path

import shapeproof

_PACKAGE = Path(shapeproof.__file__).parent
_FOLDERS = (_PACKAGE / "errors", _PACKAGE.parent / "docs" / "errors")
"""The folder of the pages: in an installed package, and in a checkout."""


def pages() -> dict[str, str]:
    """Return the text of each page by the id of its diagnostic."""
    found = (page for folder in _FOLDERS for page in sorted(folder.glob("[a-z]*.md")))
    return {page.stem: page.read_text(encoding="utf-8").rstrip() for page in found}


def title(page: str) -> str:
    """Return the title of a page, without the id of its diagnostic.

    >>> title(pages()["divides"])
    'a size must be a multiple of a number'
    """
    return page.partition("\n")[0].partition(": ")[2]
