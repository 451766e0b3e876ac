"""Note the model's lines with each node of a graph, as torch does, but look only at frames that torch keeps.

Torch keeps the frames of functions named `forward` alone, and so loses the line of a helper: that is noted as well.

For each node, torch symbolizes every frame of the stack, then keeps those that `_filter_traceback_frames` selects.
Torch selects each frame by its file and the name of its function, so it is asked once for each function.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from traceback import FrameSummary, StackSummary
from typing import Any

_Function = tuple[str, str]
"""A function's file and name. Its code is not held: code that Dynamo made is freed with its last trace."""
_Line = tuple[_Function, int]
INNERMOST = "shapeproof_line"
"""The key of a node's metadata that has the user's innermost line."""


class _Lines:
    """The text that torch notes with a node: the frames of the stack that it keeps, the outermost first."""

    def __init__(self, tracer: Any) -> None:
        self._tracer = tracer
        self._keeps: dict[_Function, bool] = {}
        self._texts: dict[tuple[_Line, ...], str] = {}

    def text(self) -> str:
        """Return the text for the present stack."""
        lines = tuple(reversed(self._lines()))
        if lines not in self._texts:
            frames = [FrameSummary(file, line, name) for (file, name), line in lines]
            self._texts[lines] = "".join(StackSummary.from_list(frames).format()).strip()
        return self._texts[lines]

    def _lines(self) -> list[_Line]:
        found, frame, known = [], sys._getframe(1), self._keeps
        while frame is not None:
            function = frame.f_code.co_filename, frame.f_code.co_name
            kept = known.get(function)
            if kept is None:
                kept = known[function] = self._is_kept(*function)
            if kept:
                found.append((function, frame.f_lineno))
            frame = frame.f_back  # type: ignore[assignment]
        return found

    def _is_kept(self, file: str, name: str) -> bool:
        frame = FrameSummary(file, 1, name, lookup_line=False)
        return bool(self._tracer._filter_traceback_frames(StackSummary.from_list([frame])))


def note_lines(tracer: Any, innermost: Callable[[], Any]) -> None:
    """Have a tracer note the same lines with its nodes as before, at less cost, and the present innermost one."""
    if not (tracer.record_stack_traces and tracer._record_forward_stack_traces_only):
        return
    create, lines = tracer.create_node, _Lines(tracer)

    def created(*args: Any, **kwargs: Any) -> Any:
        noting, tracer.record_stack_traces = tracer.record_stack_traces, False
        try:
            node = create(*args, **kwargs)
        finally:
            tracer.record_stack_traces = noting
        if noting and not node.stack_trace and (text := lines.text()):
            node.stack_trace, node.meta[INNERMOST] = text, innermost()
        return node

    tracer.create_node = created
