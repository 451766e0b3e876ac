"""`shapeproof rule ID` prints the page of a diagnostic: what it means, and what to do."""

from __future__ import annotations

import difflib
from typing import Annotated

import typer

from shapeproof.ci.pages import pages, title
from shapeproof.ci.terminal import fail, show


def rule(
    name: Annotated[
        str | None, typer.Argument(metavar="ID", help="What stands in brackets: error[ID]. Without it, all are listed.")
    ] = None,
) -> None:
    """Print what a diagnostic means, and what to do."""
    known = pages()
    if name is None:
        width = max(map(len, known), default=0)
        show("\n".join(f"{each:{width}}  {title(page)}" for each, page in known.items()))
    elif name in known:
        show(known[name])
    else:
        near = difflib.get_close_matches(name, known, 1)
        fail(f"there is no diagnostic {name!r}" + (f": did you mean {near[0]!r}?" if near else f": {', '.join(known)}"))
