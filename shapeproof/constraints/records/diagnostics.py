"""Messages to the user as data: id, sentence, place, notes, witness, help. The rooms above do the layout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from shapeproof.constraints.records.decisions import SourceLocation

Severity: TypeAlias = Literal["error", "warning", "note"]
OfModel: TypeAlias = Literal[
    "bound",
    "contradiction",
    "data-dependent",
    "divides",
    "equal",
    "example",
    "many-programs",
    "operator",
    "other-program",
    "outside",
    "rebinding",
    "relation",
    "replay",
    "seen",
    "undecided",
    "vacuous",
]
"""The ids of what is said of a model. The manual has a page for each: `docs/errors/`."""
OfChecks: TypeAlias = Literal["narrowed", "no-verdict", "not-run", "unexpected"]
"""The ids of what is said of a check in continuous integration."""
Id: TypeAlias = OfModel | OfChecks


@dataclass(frozen=True, slots=True)
class Note:
    """A labelled remark, such as "because: h % 4 == 0", and the line that the remark refers to."""

    label: str
    text: str
    where: SourceLocation | None = None


@dataclass(frozen=True, slots=True)
class Help:
    """A change that settles the diagnostic, and the proof that it does."""

    text: str
    proof: str
    requires: tuple[str, ...] = ()
    """The additional declarations of the change, as texts for `constraints=`; empty for a change of the model."""

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise ValueError("a help says what to do, and this one is empty")


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding. `witness` maps the user's names to values.

    >>> Diagnostic("replay", "the program differs from eager", witness={"x.shape[0]": 1}).severity
    'error'
    """

    id: Id
    message: str
    severity: Severity = "error"
    file: str | None = None
    line: int | None = None
    notes: tuple[Note, ...] = ()
    witness: Mapping[str, int] | None = None
    help: tuple[Help, ...] = ()
    weakest: Help | None = None
    """A help that also settles the finding and requires less, if `help` is the one that users would rather write."""

    def at(self, where: SourceLocation | None) -> Diagnostic:
        """Return the diagnostic of a line; the same if the line is not known."""
        return self if where is None else replace(self, file=where.file, line=where.line)
