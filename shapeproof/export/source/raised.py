"""Compares the exceptions that reach the user's handlers in two runs: the trace, and eager.

A fake tensor or a symbolic size may raise where eager does not. A model that catches such an exception behaves
differently from eager. An `except` with a global name reads that name from a `Recorder` (rewriting.py), at no cost. For
other handlers, all exceptions are recorded with `sys.settrace`, which doubles the time.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar
from types import CodeType, FrameType
from typing import Any

from shapeproof.export.shim.replaced import bound, traced_by
from shapeproof.export.source.abstract import InPlaceOf, reached
from shapeproof.export.source.frames import is_users
from shapeproof.export.source.handlers import may_swallow
from shapeproof.export.source.instructions import READ, Step, instructions
from shapeproof.wording import place_text

Raised = dict[tuple[str, int, type[BaseException]], str]
"""From the file, line and class of an exception to the text of its first occurrence."""

_found: ContextVar[Raised | None] = ContextVar("found", default=None)


def raised_by_the_user() -> AbstractContextManager[Raised]:
    """Record exceptions inside the block."""
    return bound(_found, {})


def only_in_the_first(first: Raised, second: Raised) -> str | None:
    """Describe an exception raised in the first run, a trace, but not in the second, eager; None if there is none."""
    for (file, line, kind), text in first.items():
        if (file, line, kind) not in second:
            what = f"{kind.__name__}: {text.partition(chr(10))[0]}"
            where = place_text(file, line)
            return f"{where}: the model catches `{what}`, which is raised while it is traced, and not in eager"
    return None


def _note(frame: FrameType, line: int, error: BaseException) -> None:
    found = _found.get()
    if found is not None and is_users(frame):
        found.setdefault((frame.f_code.co_filename, line, type(error)), str(error))


class Recorder(InPlaceOf):
    """Replaces the global name in `except Name:`; `recorder | error` records the error and returns the class."""

    def __or__(self, error: BaseException) -> Any:
        """Record the error and return the value of the name."""
        frame = sys._getframe(1)
        if error.__traceback__ is not None:
            _note(frame, error.__traceback__.tb_lineno, error)
        for scope in (frame.f_globals, frame.f_builtins):
            if self.name in scope:
                return scope[self.name]
        raise NameError(f"name {self.name!r} is not defined", name=self.name)


def watched() -> AbstractContextManager[None]:
    """Record all exceptions in the user's functions inside the block; a debugger is paused."""

    def within(frame: FrameType, event: str, arg: Any) -> Any:
        if event == "exception":
            _note(frame, frame.f_lineno, arg[1])
        return within

    def entered(frame: FrameType, *_: Any) -> Any:
        if not is_users(frame):
            return None
        frame.f_trace_lines = False
        return within

    return traced_by(entered)


# ---------------------------------------------------------------------- handlers in code


@functools.lru_cache(maxsize=2**14)
def named_handlers(code: CodeType) -> tuple[Step, ...]:
    """The step of each `except` of a code object that loads a global name, if the handler starts with it."""
    return tuple(step for step, catches in _first_steps(code) if catches and _is_plain(step))


@functools.lru_cache(maxsize=2**14)
def has_other_handlers(code: CodeType) -> bool:
    """True if a code object catches in another way: `except:`, `except self.kind:`, contextlib.suppress, its exit."""
    if not READ and code.co_exceptiontable:
        return True
    if "suppress" in code.co_names or (code.co_name == "__exit__" and may_swallow(code)):
        return True
    return any(step.does == "pop" or (catches and not _is_plain(step)) for step, catches in _first_steps(code))


def _first_steps(code: CodeType) -> Iterator[tuple[Step, bool]]:
    """Yield the first step of each handler; with true if it tests classes: no `finally` leads to such a test."""
    steps = instructions(code) if code.co_exceptiontable else ()
    for at, step in enumerate(steps):
        if step.does == "handle":
            yield steps[at + 1], any(steps[each].does == "match" for each in reached(steps, at))


def _is_plain(step: Step) -> bool:
    return step.does == "global" and not step.called
