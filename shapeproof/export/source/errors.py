"""Where an error comes from: the user's own code, a check, an operator, or tracing."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from shapeproof.constraints.records.decisions import SourceLocation
from shapeproof.export.shim.callers import OURS, TORCH, is_check
from shapeproof.export.source.bytecode import index_at, instructions
from shapeproof.export.source.frames import is_users, location

_OPERATORS = tuple(
    str(Path(TORCH) / name)
    for name in ("__init__.py", "_ops.py", "_meta_registrations.py", "_refs", "_prims", "_decomp", "_library")
)
"""Where torch's checks, operators and their fake kernels live."""


def raised_by_user(error: BaseException | None) -> bool:
    """Whether an error comes from a `raise` or an `assert` of the user's own code."""
    frame = _raising(error)
    return frame is not None and (is_users(frame) or not frame.f_code.co_filename.startswith((OURS, TORCH, "<")))


def raised_at_run_time(error: BaseException | None) -> bool:
    """Whether an error is what the model, a check or an operator raises, in eager too, and not one of tracing."""
    frame = _raising(error)
    if frame is None or type(error).__module__.startswith(("torch._subclasses", "torch._dynamo", "torch.fx")):
        return False
    return raised_by_user(error) or frame.f_code.co_filename.startswith(_OPERATORS)


def is_stated(error: BaseException) -> bool:
    """Whether what is raised is written down: by a `raise`, an `assert` or a torch._check, and not by an operator."""
    steps = list(traceback.walk_tb(error.__traceback__))
    if not steps:
        return False
    frame, trace = steps[-1][0], error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    index = index_at(frame.f_code, trace.tb_lasti) if trace is not None else None
    raised = index is not None and instructions(frame.f_code)[index].opname in {"RAISE_VARARGS", "RERAISE"}
    return raised and (not frame.f_code.co_filename.startswith(TORCH) or is_check(frame))


def _raising(error: BaseException | None) -> FrameType | None:
    """The frame in which an error was raised."""
    frames = list(traceback.walk_tb(error.__traceback__ if error is not None else None))
    return frames[-1][0] if frames else None


def led_to(error: BaseException) -> SourceLocation | None:
    """The user's innermost line on the way to an error."""
    mine = [step for step in traceback.walk_tb(error.__traceback__) if is_users(step[0])]
    return location(*mine[-1]) if mine else None


def users_variables(error: BaseException) -> Mapping[str, Any]:
    """The local variables of the user's innermost frame on the way to an error."""
    mine = [frame for frame, _ in traceback.walk_tb(error.__traceback__) if is_users(frame)]
    return mine[-1].f_locals if mine else {}
