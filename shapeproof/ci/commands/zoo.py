"""`shapeproof zoo NAME` prints the spec of a public architecture, with what was found of it."""

from __future__ import annotations

from typing import Annotated

import typer

from shapeproof.ci.pages import specs
from shapeproof.ci.terminal import fail, show
from shapeproof.constraints.errors import nearest

EXAMPLES = "Example: shapeproof zoo bert > shapeproof.toml"


def _names(incomplete: str) -> list[str]:
    return [name for name in specs() if name.startswith(incomplete)]


def zoo(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", autocompletion=_names, help="Without it, all are listed.")
    ] = None,
) -> None:
    """Print the spec of a public architecture to start from: sizes, ranges, relations, and what was proved of them."""
    known = specs()
    if name is None:
        show("\n".join(known))
    elif name in known:
        show(known[name].rstrip())
    else:
        fail(f"no architecture of the zoo is called {name!r}{nearest(name, known)}")
