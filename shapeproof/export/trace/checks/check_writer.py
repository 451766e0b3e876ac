"""Write checks on data into the graph while it is traced.

Torch's own pass runs after the trace. It leaves out bounds of floats and every condition that it has no operator for,
and by then a number without other users is gone. So each check is recorded where it is made, computed as Python wrote
it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import torch

from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.records.decisions import SourceLocation
from shapeproof.export.shim.callers import sentence
from shapeproof.export.shim.numbers.recording import recorded
from shapeproof.export.shim.numbers.symbols import ASSERTION
from shapeproof.export.shim.replaced import replaced
from shapeproof.export.source.names import message_of
from shapeproof.wording import line_text


def message_at(user: SourceLocation | None, formula: Formula) -> str:
    """Return the message of a check: the user's own sentence, else the source line, else the formula."""
    written = sentence() or (user and message_of(user.text))
    return written or (f"does not hold at {line_text(user)}: {user.text}" if user else str(formula))


class CheckWriter:
    """Holds the checks that are not in the graph yet: a check made inside an operator is written after the operator.

    `is_recording` tells whether torch records calls at present.
    """

    def __init__(self, is_recording: Callable[[], bool]) -> None:
        self._is_recording = is_recording
        self._unwritten: list[tuple[torch.SymBool, str]] = []
        self.writing = False
        """True while an assertion is being recorded: its condition is known, and is not asked about again."""

    def add(self, condition: torch.SymBool, message: str) -> None:
        """Add a check."""
        self._unwritten.append((condition, message))

    def write(self) -> None:
        """Record the added checks, if torch records."""
        if self.writing or not self._unwritten or not self._is_recording():
            return
        unwritten, self._unwritten = self._unwritten, []
        with replaced(self, writing=True):
            for condition, message in unwritten:
                ASSERTION(recorded(condition), message)

    def drop(self) -> None:
        """Drop the unwritten checks at the end of a body, where they have no place; the closing audit misses them."""
        self._unwritten.clear()

    def apart(self) -> AbstractContextManager[None]:
        """Inside this block, checks belong to another program and are not written here."""
        return replaced(self, _unwritten=[])
