"""`shapeproof verify FILE [TARGET]` runs a file that `ship` wrote, beside eager where a target builds the model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shapeproof.ci.commands.explain import Traceback
from shapeproof.ci.commands.ship import AsForm, Form, finish, refusing
from shapeproof.ci.process.subjects import RETURNS, beside, load_subject
from shapeproof.ci.running.display import Display
from shapeproof.ci.specs.spec_errors import FORM

EXAMPLES = """\b
Examples:
  shapeproof verify model.onnx ./model.py:build
  shapeproof verify model.onnx"""


def verify(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `shapeproof ship` wrote.", show_default=False)],
    target: Annotated[
        str | None, typer.Argument(metavar="[TARGET]", help=f"{FORM}; the callable returns {RETURNS}.")
    ] = None,
    *,
    form: AsForm = Form.TEXT,
    traceback: Traceback = False,
) -> None:
    """Run a file at sizes of its contract, beside eager where a target builds the model. The code in it is run.

    Exit status: 0 it does what eager does, 1 it differs or refuses sizes of the domain, 3 nothing was compared with
    eager, 2 no verdict.
    """
    with refusing(whole=traceback), beside(), Display() as display:
        display.tell("", f"running {file}")
        from shapeproof.ship import verify as run

        if target is None:
            verdict = run(file)
        else:
            subject = load_subject(target)
            args, kwargs, shapes = subject.args, subject.kwargs, subject.dynamic_shapes
            verdict = run(file, subject.model, args, kwargs, dynamic_shapes=shapes, constraints=subject.constraints)
    finish(verdict, form)
