"""Where torch asked a question about a size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shapeproof.constraints.records.decisions import SourceLocation

if TYPE_CHECKING:
    from shapeproof.export.source.names import Number


@dataclass(frozen=True, slots=True)
class Place:
    """Where a question was asked: the user's line, the operator being run, torch's own line.

    `names` says what the user's code calls the symbols at that line, where that was looked for. `number` is
    what is being computed there, if it is a number.
    """

    user: SourceLocation | None = None
    operator: str | None = None
    framework: SourceLocation | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    number: Number | None = None
