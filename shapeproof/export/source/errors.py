"""The origin of an error: the user's own code, a check, an operator, or tracing.

Also finds the line of Python that changes something, by tracing every line of a run except torch's. The caller defines
and judges the changes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any

import torch

from shapeproof.constraints.errors import ShapeproofError
from shapeproof.constraints.records.decisions import SourceLocation
from shapeproof.export.shim.callers import OURS, TORCH, is_check
from shapeproof.export.shim.replaced import traced_by
from shapeproof.export.source.abstract import running_at
from shapeproof.export.source.frames import in_torch, is_users, location
from shapeproof.export.source.instructions import instructions

_OPERATORS = tuple(
    str(Path(TORCH) / name)
    for name in ("__init__.py", "_ops.py", "_meta_registrations.py", "_refs", "_prims", "_decomp", "_library")
)
"""Files of torch's checks, operators and fake kernels."""
_EXPORT = torch.export.export.__code__
"""Of torch's own, also while a library has ours in its place."""
_FAKES = str(Path(TORCH) / "_subclasses" / "fake_impls.py")
"""The file of fake kernels that call C++. Besides what an operator refuses, some of them refuse to be traced."""


def raised_by_user(error: BaseException | None) -> bool:
    """True if a `raise` or an `assert` of the user's code raised the error, or a torch._check that it calls."""
    frames = [step.tb_frame for step in _steps(error)]
    own = next((n for n, each in enumerate(frames) if is_users(each) or _is_of_the_model(each.f_code)), None)
    by_check = own and is_check(frames[0]) and frames[own - 1].f_code.co_filename == torch.__file__
    return own == 0 or bool(by_check)


def raised_at_run_time(error: BaseException | None) -> bool:
    """True if the model, a check or an operator raised the error, in eager too; false for an error of tracing."""
    frame = _raising(error)
    if frame is None or type(error).__module__.startswith(("torch._subclasses", "torch._dynamo", "torch.fx")):
        return False
    return raised_by_user(error) or frame.f_code.co_filename.startswith(_OPERATORS)


def raised_by_sizes(error: BaseException | None) -> bool:
    """True if an error on tensors without data shows that a trace at the same sizes raises, too."""
    frame = _raising(error)
    in_fake = frame is not None and type(error) is RuntimeError and frame.f_code.co_filename == _FAKES
    return in_fake or raised_at_run_time(error)


def is_stated(error: BaseException) -> bool:
    """True if a `raise`, an `assert` or a torch._check raised the error; false if an operator did."""
    frame = _raising(error)
    raised = _raised_at(error) in {"raise", "reraise"}
    return frame is not None and raised and (not frame.f_code.co_filename.startswith(TORCH) or is_check(frame))


def _raised_at(error: BaseException) -> str | None:
    """What the step does that raised an error, in its innermost frame."""
    for step in _steps(error)[:1]:
        index = running_at(step.tb_frame.f_code, step.tb_lasti)
        return None if index is None else instructions(step.tb_frame.f_code)[index].does
    return None


_ON_PURPOSE = (NotImplementedError, RecursionError)
"""Classes of errors with which this package says of the model that it cannot be traced; torch's classes do, too."""


def mistaken(error: BaseException) -> SourceLocation | None:
    """The line of this package that raised an error by mistake; None if the model or torch raised it.

    Of the model, torch and this package, who was called last has raised: a library's frames are their caller's. A frame
    of this package that passes `*args, **kwargs` on has raised nothing. What torch raises is its own only while it
    traces: no other call of torch is the model's.
    """
    steps = _steps(error)
    ours = [step for step in steps if _file(step).startswith(OURS)]
    last = next((each for each in steps if _file(each).startswith((OURS, TORCH)) or is_users(each.tb_frame)), None)
    if last is None or not ours or is_users(last.tb_frame):
        return None
    is_tracing = any(step.tb_frame.f_code is _EXPORT for step in steps)
    said = isinstance(error, _ON_PURPOSE) or type(error).__module__.startswith("torch")
    if is_tracing and (said or last is not ours[0] or _passes_on(error)):
        return None
    return _line(ours[0])


def is_mistake(error: BaseException) -> bool:
    """True if this package raised an error by mistake: none of its own classes, by which it says what it cannot do."""
    return not isinstance(error, ShapeproofError) and mistaken(error) is not None


def _passes_on(error: BaseException) -> bool:
    """True if the innermost frame of an error called what it was given: `func(*args, **kwargs)`."""
    frame = _raising(error)
    return frame is not None and _raised_at(error) == "call with all" and "kwargs" in frame.f_code.co_varnames


def _file(step: TracebackType) -> str:
    return step.tb_frame.f_code.co_filename


def _line(step: TracebackType) -> SourceLocation:
    return location(step.tb_frame, step.tb_lineno)


def _raising(error: BaseException | None) -> FrameType | None:
    """The frame in which an error was raised."""
    return next((step.tb_frame for step in _steps(error)), None)


def _steps(error: BaseException | None) -> list[TracebackType]:
    """The steps of a traceback, the innermost first."""
    steps: list[TracebackType] = []
    step = error and error.__traceback__
    while step:
        steps.insert(0, step)
        step = step.tb_next
    return steps


def led_to(error: BaseException) -> SourceLocation | None:
    """The user's innermost line in the traceback of an error; the model's, if its whole code is a library's."""
    steps = _steps(error)
    users = next((step for step in steps if is_users(step.tb_frame)), None)
    found = users or next((step for step in steps if _is_of_the_model(step.tb_frame.f_code)), None)
    return None if found is None else _line(found)


def raised_alike(one: BaseException, other: BaseException) -> bool:
    """True if two errors of one class left the model's code at the same instruction."""
    left = _last_step(one)
    return type(one) is type(other) and left is not None and left == _last_step(other)


def _last_step(error: BaseException) -> tuple[CodeType, int] | None:
    """The innermost code of the model in the traceback of an error, and the offset of its instruction."""
    steps = ((step.tb_frame.f_code, step.tb_lasti) for step in _steps(error))
    return next((step for step in steps if _is_of_the_model(step[0])), None)


def _is_of_the_model(code: CodeType) -> bool:
    """True if code is in a file of neither torch nor this package: the user's, or a library's."""
    return not code.co_filename.startswith((OURS, TORCH, "<"))


def users_variables(error: BaseException) -> Mapping[str, Any]:
    """The local variables of the user's innermost frame in the traceback of an error."""
    return next((step.tb_frame.f_locals for step in _steps(error) if is_users(step.tb_frame)), {})


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
