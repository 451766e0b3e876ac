"""`shapeproof rule ID` prints the page of a diagnostic: its meaning and its remedies."""

from __future__ import annotations

from typing import Annotated

import typer

from shapeproof.ci.pages import pages, title
from shapeproof.ci.terminal import fail, show
from shapeproof.constraints.errors import nearest

EXAMPLES = "Example: shapeproof rule divides"


def _ids(incomplete: str) -> list[tuple[str, str]]:
    """Completions: the ids of diagnostics with their titles."""
    return [(name, title(page)) for name, page in pages().items() if name.startswith(incomplete)]


def rule(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="ID", autocompletion=_ids, help="What stands in brackets: error[ID]. Without it, all are listed."
        ),
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
        fail(f"no diagnostic is called {name!r}{nearest(name, known)}")
