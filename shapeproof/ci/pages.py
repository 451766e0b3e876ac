"""The documentation page of each diagnostic: its meaning and its remedies. The specs of the zoo."""

from __future__ import annotations

import json
from pathlib import Path

import shapeproof

_PACKAGE = Path(shapeproof.__file__).parent
_FOLDERS = (_PACKAGE / "errors", _PACKAGE.parent / "docs" / "errors")
_ZOO = (_PACKAGE / "zoo.json", _PACKAGE.parent / "zoo" / "specs.json")
"""The folder of the pages, and the file of the specs: in an installed package, and in a checkout."""


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


def specs() -> dict[str, str]:
    """Return the text of the spec of each public architecture of the zoo, by its name.

    >>> specs()["bert"].splitlines()[-1]
    'attention_mask = { dtype = "int64", dims = ["batch", "length"] }'
    """
    file = next(each for each in _ZOO if each.exists())
    found: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
    return found
