"""`shapeproof zoo NAME` prints the spec of a public architecture, with what was found of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

import shapeproof
from shapeproof.ci.terminal import fail, show
from shapeproof.constraints.errors import nearest

EXAMPLES = "Example: shapeproof zoo bert > shapeproof.toml"

_PACKAGE = Path(shapeproof.__file__).parent
_FILES = (_PACKAGE / "zoo.json", _PACKAGE.parent / "zoo" / "specs.json")
"""In an installed package, and in a checkout."""


def _specs() -> dict[str, str]:
    file = next(each for each in _FILES if each.exists())
    specs: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
    return specs


def _names(incomplete: str) -> list[str]:
    return [name for name in _specs() if name.startswith(incomplete)]


def zoo(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", autocompletion=_names, help="Without it, all are listed.")
    ] = None,
) -> None:
    """Print the spec of a public architecture to start from: sizes, ranges, relations, and what was proved of them."""
    known = _specs()
    if name is None:
        show("\n".join(known))
    elif name in known:
        show(known[name].rstrip())
    else:
        fail(f"no architecture of the zoo is called {name!r}{nearest(name, known)}")
