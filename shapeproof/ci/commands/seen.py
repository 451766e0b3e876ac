"""`shapeproof seen PROFILE...` merges profiles of seen inputs and prints them, or a spec to edit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shapeproof.ci.process.subjects import call_target
from shapeproof.ci.specs.seen_spec import spec_text
from shapeproof.ci.terminal import show
from shapeproof.files import writing
from shapeproof.seen import Seen

EXAMPLES = "Example: shapeproof seen monday.json tuesday.json --spec nets:Scores"


def seen(
    profiles: Annotated[list[Path], typer.Argument(metavar="PROFILE...", help="What Seen.save wrote.")],
    spec: Annotated[
        str | None, typer.Option(metavar="MODULE.PATH:CALLABLE", help="Print a spec of this model over what was seen.")
    ] = None,
    save: Annotated[Path | None, typer.Option(metavar="PATH", help="Write the merged profile.")] = None,
) -> None:
    """Merge profiles of what a model was given, and print what was seen.

    Exit status: 0, or 2 where a file is no profile or a spec cannot say what was seen.
    """
    merged = Seen.merged(map(Seen.load, profiles))
    text = str(merged) if spec is None else spec_text(merged.named(_parameters(spec, merged)), spec)
    if save is not None:
        with writing(save):
            merged.save(save)
    show(text)


def _parameters(target: str, merged: Seen) -> tuple[str, ...]:
    """Return the model's parameter names if some input is known only by position. Loads the model in that case."""
    if not any(slot.is_placed for kind in merged.joints for slot in kind):
        return ()
    from shapeproof.export.forms.seen.from_seen import parameters

    return parameters(call_target(target))
