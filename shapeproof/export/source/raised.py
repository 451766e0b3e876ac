"""What the user's code raises while it runs, whether somebody catches it or not: two runs are held against each other.

A fake tensor or a symbolic size raises where eager does not. A model that catches that goes on otherwise than in eager.
Nothing is run or decided here.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

from shapeproof.export.source.frames import is_users
from shapeproof.export.source.wording import short

Raised = dict[tuple[str, int, type[BaseException]], str]
"""A line of a file, a class of exceptions, and the text of the first."""


@contextlib.contextmanager
def raised_by_the_user() -> Iterator[Raised]:
    """What is raised in functions of the user's files that are called while this lasts; a debugger rests meanwhile."""
    found: Raised = {}

    def within(frame: FrameType, event: str, arg: Any) -> Any:
        if event == "exception":
            kind, error, _ = arg
            found.setdefault((frame.f_code.co_filename, frame.f_lineno, kind), str(error))
        return within

    def entered(frame: FrameType, *_: Any) -> Any:
        if not is_users(frame):
            return None
        frame.f_trace_lines = False
        return within

    before = sys.gettrace()
    sys.settrace(entered)
    try:
        yield found
    finally:
        sys.settrace(before)


def only_in_the_first(first: Raised, second: Raised) -> str | None:
    """A sentence about what is raised in the first run, a trace, and not in eager; None if nothing is."""
    for (file, line, kind), text in first.items():
        if (file, line, kind) not in second:
            what = f"{kind.__name__}: {text.partition(chr(10))[0]}"
            where = f"{short(file)}:{line}"
            return f"{where}: the model catches `{what}`, which is raised while it is traced, and not in eager"
    return None
