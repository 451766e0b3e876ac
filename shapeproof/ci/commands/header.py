"""`shapeproof header CONTRACT` writes a C++ header that checks a contract."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from shapeproof.ci.terminal import show
from shapeproof.constraints.errors import UsageError
from shapeproof.contract import Contract, load
from shapeproof.files import write_whole, writing

EXAMPLES = "Example: shapeproof header model.contract.json -o model.h"


def header(
    contract: Annotated[
        Path, typer.Argument(metavar="CONTRACT", help="The file of a contract, a report, or a saved program.")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="PATH", help="The header; without it, standard output.")
    ] = None,
) -> None:
    """Write a C++ header that refuses the inputs that a contract does.

    Its function is `outside`, in a namespace that is named as the file: model::outside in model.h. Exit status: 0, or 2
    where there is no contract, or no header can check it.
    """
    refuse_one_file(output, contract)
    text = header_of(load(contract), output or contract)
    if output is None:
        show(text.rstrip("\n"))
        return
    write_header(text, output)


def header_of(contract: Contract, path: Path) -> str:
    """Return the header of a contract, in a namespace that is named as a file."""
    return contract.header(re.sub(r"\W", "_", path.name.partition(".")[0], flags=re.ASCII))


def refuse_one_file(header: Path | None, other: Path) -> None:
    """Refuse a header in the place of the file that it is for.

    Raises:
        UsageError: the two are one file.
    """
    if header is not None and header.resolve() == other.resolve():
        raise UsageError(f"{header} is the file that the header is for: give the header another name")


def write_header(text: str, path: Path) -> None:
    """Write a header.

    Raises:
        UsageError: the file cannot be written.
    """
    with writing(path):
        write_whole(path, text)
