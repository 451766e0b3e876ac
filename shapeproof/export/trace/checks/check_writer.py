"""Writes checks on data into the graph while it is traced.

Torch's own pass runs when the trace is over. It leaves out a bound of a float, whatever it has no operator for, and a
number that nothing else uses is gone by then; so each check is recorded where it is made, computed as Python wrote it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import torch

from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.records.decisions import SourceLocation
from shapeproof.export.shim.callers import sentence
from shapeproof.export.shim.numbers.recording import recorded
from shapeproof.export.shim.numbers.symbols import ASSERTION
from shapeproof.export.source.names import message_of
from shapeproof.wording import short


def message_at(user: SourceLocation | None, formula: Formula) -> str:
    """What a check says where it fails: the user's own sentence, or else the line."""
    written = sentence() or (user and message_of(user.text))
    return written or (f"does not hold at {short(user.file)}:{user.line}: {user.text}" if user else str(formula))


class CheckWriter:
    """Holds the checks that are not in the graph yet: one that an operator makes follows the operator.

    Args:
        is_recording: whether torch records what is called now.
    """

    def __init__(self, is_recording: Callable[[], bool]) -> None:
        self._is_recording = is_recording
        self._unwritten: list[tuple[torch.SymBool, str]] = []
        self.writing = False
        """Whether an assertion is being recorded: its condition is known, and is not asked about again."""

    def add(self, condition: torch.SymBool, message: str) -> None:
        """Take a check."""
        self._unwritten.append((condition, message))

    def write(self) -> None:
        """Record what was taken, if torch records."""
        if self.writing or not self._unwritten or not self._is_recording():
            return
        unwritten, self._unwritten = self._unwritten, []
        self.writing = True
        try:
            for condition, message in unwritten:
                ASSERTION(recorded(condition), message)
        finally:
            self.writing = False

    def drop(self) -> None:
        """A body ends, and what was not written there has no place any more; the closing audit misses it."""
        self._unwritten.clear()

    @contextlib.contextmanager
    def apart(self) -> Iterator[None]:
        """Inside this block, checks are another program's, and are not written here."""
        mine, self._unwritten = self._unwritten, []
        try:
            yield
        finally:
            self._unwritten = mine
