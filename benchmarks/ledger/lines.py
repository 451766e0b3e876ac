"""A line of the ledger: what a report says of a model, and what it cost. A file has one line of JSON for each model.

Files that end in `.xz` are compressed.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from shapeproof.export.report.report import Report

FOLDER = Path(__file__).parent / "kept"
REGION = "region: "
"""How the text of a region begins, which is among those of the domain."""


@dataclass(frozen=True)
class Line:
    """The verdict on a model.

    Attributes:
        name: the collection and the model: `models/bert`.
        status: the report's, or the name of the error that was raised, or how the process ended.
        domain: the sizes that the program serves, as texts; of several programs, the regions too.
        ids: those of the diagnostics, in order.
        witnesses: the inputs that the diagnostics show.
        spent: traces, and the solver's work. No part of the verdict.
    """

    name: str
    status: str
    domain: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    witnesses: tuple[Mapping[str, int], ...] = ()
    spent: Mapping[str, int] = field(default_factory=dict, compare=False)

    @classmethod
    def of_report(cls, name: str, report: Report) -> Line:
        """Say what a report says."""
        regions = (f"{REGION}{each}" for each in report.regions)
        witnesses = (dict(each.witness) for each in report.diagnostics if each.witness is not None)
        spent = {"traces": report.statistics.get("traces", 0), **report.spent}
        ids = tuple(each.id for each in report.diagnostics)
        return cls(name, report.status, (*report.domain, *regions), ids, tuple(witnesses), spent)

    @classmethod
    def of_text(cls, text: str) -> Line:
        """Read a line.

        >>> line = Line("models/one", "proved", ("n <= 8",))
        >>> Line.of_text(str(line)) == line
        True
        """
        data: dict[str, Any] = json.loads(text)
        listed = {key: tuple(data.get(key, ())) for key in ("domain", "ids", "witnesses")}
        return cls(data["name"], data["status"], **listed, spent=data.get("spent", {}))

    def __str__(self) -> str:
        return json.dumps({key: value for key, value in asdict(self).items() if value})


def read_lines(content: bytes) -> dict[str, Line]:
    """Read the lines of a file's content, by name."""
    text = (lzma.decompress(content) if content.startswith(b"\xfd7zXZ") else content).decode()
    return {line.name: line for line in map(Line.of_text, text.splitlines())}


def write_lines(path: Path, lines: Iterable[Line]) -> None:
    """Write a file, its lines sorted by name."""
    text = "".join(f"{line}\n" for line in sorted(lines, key=lambda line: line.name)).encode()
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(lzma.compress(text, preset=9) if path.suffix == ".xz" else text)
