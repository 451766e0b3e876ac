"""Finds the line of Python that changes something, by tracing every line of a run except torch's.

The caller defines and judges the changes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from types import FrameType
from typing import Any

from shapeproof.constraints.records.decisions import SourceLocation
from shapeproof.export.shim.callers import OURS
from shapeproof.export.shim.replaced import traced_by
from shapeproof.export.source.frames import in_torch, is_users, location


class ChangedAt:
    """The line at which each of several things is first seen to have changed.

    Args:
        changed: returns everything that has changed so far.
    """

    def __init__(self, changed: Callable[[], set[Hashable]]) -> None:
        self.lines: dict[Hashable, SourceLocation] = {}
        self._changed = changed
        self._at: FrameType | None = None
        self._line = 0

    def following(self) -> AbstractContextManager[None]:
        """Follow the code run inside the block."""
        return traced_by(self._called)

    def _called(self, frame: FrameType, event: str, _: Any) -> Any:
        file = frame.f_code.co_filename
        return None if in_torch(file) or file.startswith(OURS) else self._step(frame, event, None)

    def _step(self, frame: FrameType, event: str, _: Any) -> Any:
        """Attribute the changes since the previous event to the line of that event."""
        if self._at is not None:
            for each in self._changed() - self.lines.keys():
                self.lines[each] = _users_line(self._at, self._line)
        done = event == "return"
        self._at = frame.f_back if done else frame
        self._line = self._at.f_lineno if self._at is not None else 0
        return self._step


def _users_line(frame: FrameType, line: int) -> SourceLocation:
    """Return the user's innermost line that leads to `line`, or `line` itself if the whole model is installed."""
    outer: FrameType | None = frame
    while outer is not None and not outer.f_code.co_filename.startswith(OURS):
        if is_users(outer):
            return location(outer, line if outer is frame else None)
        outer = outer.f_back
    return location(frame, line)
