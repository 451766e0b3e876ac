"""The place of a question about a size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shapeproof.constraints.records.decisions import SourceLocation

if TYPE_CHECKING:
    from shapeproof.export.source.names import Number


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a question: the user's line, the operator being run, torch's own line.

    `names` maps symbols to the user's names at that line, if they were looked up. `number` is the number being computed
    there, if any.
    """

    user: SourceLocation | None = None
    operator: str | None = None
    framework: SourceLocation | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    number: Number | None = None
