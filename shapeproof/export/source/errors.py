"""The origin of an error: the user's own code, a check, an operator, or tracing."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch

from shapeproof.constraints.records.decisions import SourceLocation
from shapeproof.export.shim.callers import OURS, TORCH, is_check
from shapeproof.export.source.bytecode import index_at, instructions
from shapeproof.export.source.frames import is_users, location

_OPERATORS = tuple(
    str(Path(TORCH) / name)
    for name in ("__init__.py", "_ops.py", "_meta_registrations.py", "_refs", "_prims", "_decomp", "_library")
)
"""Files of torch's checks, operators and fake kernels."""
_FAKES = str(Path(TORCH) / "_subclasses" / "fake_impls.py")
"""The file of fake kernels that call C++. Besides what an operator refuses, some of them refuse to be traced."""


def raised_by_user(error: BaseException | None) -> bool:
    """True if a `raise` or an `assert` of the user's code raised the error, or a torch._check that it calls."""
    called: list[FrameType] = []
    for frame in reversed(_frames(error)):
        if is_users(frame) or _is_of_the_model(frame.f_code):
            return not called or (called[-1].f_code.co_filename == torch.__file__ and is_check(called[0]))
        called.append(frame)
    return False


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
    raised = _raised_at(error) in {"RAISE_VARARGS", "RERAISE"}
    return frame is not None and raised and (not frame.f_code.co_filename.startswith(TORCH) or is_check(frame))


def _raised_at(error: BaseException) -> str | None:
    """The name of the instruction that raised an error, in its innermost frame."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    index = None if trace is None else index_at(trace.tb_frame.f_code, trace.tb_lasti)
    return None if trace is None or index is None else instructions(trace.tb_frame.f_code)[index].opname


_ON_PURPOSE = (NotImplementedError, RecursionError)
"""Classes of errors with which this package says of the model that it cannot be traced; torch's classes do, too."""


def mistaken(error: BaseException) -> SourceLocation | None:
    """The line of this package that raised an error by mistake; None if the model or torch raised it.

    Of the model, torch and this package, who was called last has raised: a library's frames are their caller's. A frame
    of this package that passes `*args, **kwargs` on has raised nothing. What torch raises is its own only while it
    traces: no other call of torch is the model's.
    """
    steps = list(traceback.walk_tb(error.__traceback__))
    ours = [step for step in steps if _file(step).startswith(OURS)]
    last = next((step for step in reversed(steps) if _file(step).startswith((OURS, TORCH)) or is_users(step[0])), None)
    if last is None or not ours or is_users(last[0]):
        return None
    is_tracing = any(frame.f_code is torch.export.export.__code__ for frame, _ in steps)
    said = isinstance(error, _ON_PURPOSE) or type(error).__module__.startswith("torch")
    if is_tracing and (said or last is not ours[-1] or _passes_on(error)):
        return None
    return location(*ours[-1])


def _passes_on(error: BaseException) -> bool:
    """True if the innermost frame of an error called what it was given: `func(*args, **kwargs)`."""
    frame = _raising(error)
    return frame is not None and _raised_at(error) == "CALL_FUNCTION_EX" and "kwargs" in frame.f_code.co_varnames


def _file(step: tuple[FrameType, int]) -> str:
    return step[0].f_code.co_filename


def _raising(error: BaseException | None) -> FrameType | None:
    """The frame in which an error was raised."""
    return next(reversed(_frames(error)), None)


def _frames(error: BaseException | None) -> list[FrameType]:
    return [frame for frame, _ in traceback.walk_tb(error.__traceback__ if error is not None else None)]


def led_to(error: BaseException) -> SourceLocation | None:
    """The user's innermost line in the traceback of an error."""
    mine = [step for step in traceback.walk_tb(error.__traceback__) if is_users(step[0])]
    return location(*mine[-1]) if mine else None


def raised_alike(one: BaseException, other: BaseException) -> bool:
    """True if two errors of one class left the model's code at the same instruction."""
    left = _last_step(one)
    return type(one) is type(other) and left is not None and left == _last_step(other)


def _last_step(error: BaseException) -> tuple[CodeType, int] | None:
    """The innermost code of the model in the traceback of an error, and the offset of its instruction."""
    step, last = error.__traceback__, None
    while step is not None:
        code = step.tb_frame.f_code
        last = (code, step.tb_lasti) if _is_of_the_model(code) else last
        step = step.tb_next
    return last


def _is_of_the_model(code: CodeType) -> bool:
    """True if code is in a file of neither torch nor this package: the user's, or a library's."""
    return not code.co_filename.startswith((OURS, TORCH, "<"))


def users_variables(error: BaseException) -> Mapping[str, Any]:
    """The local variables of the user's innermost frame in the traceback of an error."""
    mine = [frame for frame, _ in traceback.walk_tb(error.__traceback__) if is_users(frame)]
    return mine[-1].f_locals if mine else {}
