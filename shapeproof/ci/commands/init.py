"""`shapeproof init TARGET [EXAMPLE]` writes the first spec of a model: what is proved of it from one example."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shapeproof.ci.commands.explain import Traceback
from shapeproof.ci.process.inferred import inferred_spec
from shapeproof.ci.process.subjects import beside, load_subject
from shapeproof.ci.process.tracebacks import told
from shapeproof.ci.running.display import Display
from shapeproof.ci.specs.spec import DEFAULTS
from shapeproof.ci.specs.spec_errors import FORM
from shapeproof.ci.specs.tables import spec_of
from shapeproof.ci.terminal import EXIT_STATUS, fail, say, show
from shapeproof.constraints.errors import UsageError
from shapeproof.files import write_whole, writing

EXAMPLES = """\b
Examples:
  shapeproof init nets:Scores nets:example   then: shapeproof check
  shapeproof init ./model.py:build"""

_PATH = Path(DEFAULTS[0])


def init(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET", show_default=False, help=f"{FORM}: a module, or what returns it (or all, as for explain)."
        ),
    ],
    example: Annotated[
        str | None,
        typer.Argument(
            metavar="[EXAMPLE]", show_default=False, help="What returns its tensors: one, a tuple, or a dict by name."
        ),
    ] = None,
    *,
    force: Annotated[bool, typer.Option("--force", help=f"Overwrite {_PATH}.")] = False,
    traceback: Traceback = False,
) -> None:
    """Write shapeproof.toml here: a spec of one model, which `shapeproof check` then checks.

    With EXAMPLE every size is varied, and the spec declares all that the model is proved to support. Without, TARGET
    returns its inputs and dims itself. Exit status: 0; 1, 2 or 3 as for `explain` where nothing is proved and written.
    """
    if _PATH.exists() and not force:
        fail(f"{_PATH} exists: --force overwrites it")
    try:
        with beside(), Display() as display:
            display.tell("", f"loading {target}")
            if example is None:
                load_subject(target)
                text = spec_of(target, {}, (), {}, "The target returns model, inputs and dims.")
            else:
                report, text = inferred_spec(target, example, lambda step: display.tell("", step))
        if not text:
            show(str(report))
            say(f"{_PATH} is not written: nothing is proved")
            raise typer.Exit(EXIT_STATUS[report.status])
        with writing(_PATH):
            write_whole(_PATH, text)
    except UsageError as error:
        fail(told(error, whole=traceback))
    say(f"wrote {_PATH}")
