"""`shapeproof recheck PATH` proves every claim of a certificate again and exits with the result."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shapeproof.ci.running.display import Display
from shapeproof.ci.terminal import EXIT_STATUS, INTERRUPTED, say, show
from shapeproof.constraints.errors import UsageError
from shapeproof.files import given_file, sha256

if TYPE_CHECKING:
    from shapeproof.solver.proofs.recheck import Recheck

EXAMPLES = """\b
Examples:
  shapeproof explain ./model.py:build --certificate proof.smt2 --save report.json
  shapeproof recheck proof.smt2 --report report.json"""

_CLAIMS = {
    "proved": "each claim is unsat for some solver, and sat for none",
    "refuted": "a claim that is sat does not follow from the facts beside it",
    "undecided": "{unproved} claims are unknown to every solver",
}


def recheck(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="What report.certificate(PATH) wrote.")],
    report: Annotated[
        Path | None, typer.Option(metavar="PATH", help="What report.save(PATH) wrote: must be that of the same run.")
    ] = None,
) -> None:
    """Prove a certificate again with Z3, and with cvc5 where it is installed.

    Exit status: 0 the model was proved, and every claim is proved again; 1 it was refuted or vacuous, or some claim
    does not follow; 3 it was undecided, or some claim is not proved again; 2 no certificate, or of another report.
    """
    from shapeproof.solver.proofs.recheck import recheck as ask_again

    try:
        with Display() as display:
            display.tell("", f"reading {path}")
            result = ask_again(path, progress=functools.partial(display.tell, ""))
        if report is not None and sha256(given_file(report)) != result.report:
            raise UsageError(f"{report} is not the report of the run that the certificate is about")
    except KeyboardInterrupt:
        say("shapeproof: interrupted before every claim was proved again")
        raise typer.Exit(INTERRUPTED) from None
    show(_table(result))
    raise typer.Exit(EXIT_STATUS[result.status])


def _table(result: Recheck) -> str:
    answers = ("unsat", "sat", "unknown")
    lines = ["solver".ljust(8) + "".join(answer.rjust(9) for answer in answers)]
    for name, count in result.answers.items():
        lines.append(name.ljust(8) + "".join(str(count[answer]).rjust(9) for answer in answers))
    return "\n".join([*lines, _closing(result)])


def _closing(result: Recheck) -> str:
    claims = _CLAIMS[result.of_claims].format(unproved=result.unproved)
    opaque = f", and {result.opaque} are not in SMT-LIB" if result.opaque else ""
    of_run = f"; the verdict of the run is {result.verdict}" if result.verdict else ""
    return f"{result.status}: {claims}{opaque}{of_run}"
