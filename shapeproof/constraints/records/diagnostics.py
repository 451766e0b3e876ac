"""What is said to the user, as data: an id, a sentence, where, notes, a witness, help. Layout is somebody else's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from shapeproof.constraints.records.decisions import SourceLocation

Severity: TypeAlias = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class Note:
    """A labelled remark, such as "because: h % 4 == 0", with the line that it is about."""

    label: str
    text: str
    where: SourceLocation | None = None


@dataclass(frozen=True, slots=True)
class Help:
    """A change that settles the matter, and what proves that it does."""

    text: str
    proof: str
    requires: tuple[str, ...] = ()
    """What the change declares in addition, as `constraints=` has it; empty for a change of the model."""

    def __post_init__(self) -> None:
        if not self.text.strip():
            message = "a help says what to do, and this one is empty"
            raise ValueError(message)


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding. `witness` maps names as the user writes them to values.

    >>> Diagnostic("SP001", "the program differs from eager", witness={"x.shape[0]": 1}).severity
    'error'
    """

    id: str
    message: str
    severity: Severity = "error"
    file: str | None = None
    line: int | None = None
    notes: tuple[Note, ...] = ()
    witness: Mapping[str, int] | None = None
    help: tuple[Help, ...] = ()
    weakest: Help | None = None
    """What else settles it and asks for less, where the help is what people would rather write."""
