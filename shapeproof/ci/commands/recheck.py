"""`shapeproof recheck path` proves every claim of a certificate again and exits with what came of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shapeproof.ci.terminal import EXIT_STATUS, Progress, fail, show
from shapeproof.constraints.errors import UsageError

if TYPE_CHECKING:
    from shapeproof.solver.recheck import Recheck

_CLOSING = {
    "proved": "proved: each claim is unsat for some solver, and sat for none",
    "refuted": "refuted: a claim that is sat does not follow from the facts beside it",
    "undecided": "undecided: {unproved} claims are unknown to every solver",
}


def recheck(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="What report.certificate(PATH) wrote.")],
) -> None:
    """Prove a certificate again with Z3, and with cvc5 where it is installed.

    Exit status: 0 every claim is proved, 1 some claim does not follow, 3 some claim is unknown, 2 no certificate.
    """
    from shapeproof.solver.recheck import recheck as ask_again

    try:
        with Progress(f"reading {path}") as progress:
            result = ask_again(path, progress=progress)
    except UsageError as error:
        fail(str(error))
    show(_table(result))
    raise typer.Exit(EXIT_STATUS[result.status])


def _table(result: Recheck) -> str:
    answers = ("unsat", "sat", "unknown")
    lines = ["solver".ljust(8) + "".join(answer.rjust(9) for answer in answers)]
    for name, count in result.answers.items():
        lines.append(name.ljust(8) + "".join(str(count[answer]).rjust(9) for answer in answers))
    return "\n".join([*lines, _CLOSING[result.status].format(unproved=result.unproved)])
