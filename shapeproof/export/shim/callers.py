"""Recognises torch's own functions on the call stack by their names.

The function tells why torch asks about a size: for a torch._check, a branch of torch.cond, or a node's metadata.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch._higher_order_ops.while_loop import while_loop_fake_tensor_mode
from torch.fx.passes import shape_prop

import shapeproof
from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.terms import Term

OURS = str(Path(shapeproof.__file__).parent)
"""The folder where this package is installed."""
TORCH = str(Path(torch.__file__).parent)
_BODIES = str(Path(TORCH) / "_higher_order_ops")
_LOOPS = {str(Path(_BODIES) / f"{name}.py") for name in ("while_loop", "scan", "associative_scan", "map")}
_TRACER = tuple(str(Path(TORCH) / name) for name in ("export", "_export", "fx", "_subclasses", "_functorch", "_dynamo"))
"""The folders of torch's tracer, which records what it reads of a tensor but does not branch on it."""
_HELPERS = str(Path(TORCH) / "_prims_common")
_OF_A_TENSOR = tuple(str(Path(TORCH) / name) for name in ("_tensor.py", "overrides.py"))
_FAKE_INPUTS = str(Path(TORCH) / "_subclasses" / "meta_utils.py")
_OF_A_NODE = shape_prop._extract_tensor_metadata.__code__
_LOOP = while_loop_fake_tensor_mode.__code__
_ASSERT = torch._assert.__code__
_DEPTH_OF_A_NOTE = 17


def outwards() -> Iterator[FrameType]:
    """Yield the frames of the call stack, starting with the caller's own.

    No frame may hold itself: its contents would live until the next garbage collection. Nor is a line number read, as
    `traceback.walk_stack` does: Python computes it from the start of the frame's code.
    """
    return _outwards(sys._getframe(1))


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def sentence() -> str | None:
    """Return the user's message in the torch._check that reaches the caller now."""
    check = _check()
    message = check.f_locals.get("message") if check is not None else None
    return str(message()) if callable(message) else message


def is_asserting() -> bool:
    """True if a torch._assert reaches the caller now: the answer False fails it."""
    check = _check()
    return check is not None and check.f_code is _ASSERT


def raised_by_check() -> frozenset[type[BaseException]] | None:
    """Return the exception that the current torch._check raises if it fails; None if there is no check."""
    check = _check()
    kind = check.f_locals.get("error_type") if check is not None else None
    return frozenset({kind}) if isinstance(kind, type) else None


def _check() -> FrameType | None:
    """The frame of the current torch._check or similar check."""
    return next((frame for frame in outwards() if is_check(frame)), None)


def is_check(frame: FrameType) -> bool:
    """True if a frame is that of a torch._check or similar check."""
    by_torch = frame.f_code.co_name == "_check_with" and frame.f_code.co_filename.startswith(TORCH)
    return by_torch or frame.f_code is _ASSERT


@dataclass(frozen=True, slots=True, eq=False)
class Body:
    """A run of a body of a higher-order operator (a branch of torch.cond): the frame that runs it, and its call."""

    frame: FrameType
    call: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Body) and self.frame is other.frame and self.call == other.call

    __hash__ = None  # type: ignore[assignment]


def body() -> Body | None:
    """Return the body of a higher-order operator that the caller runs in; a program may or may not run it."""
    return _running(lambda file: file.startswith(_BODIES))


def round_of_a_loop() -> Body | None:
    """Return the body of a loop that the caller runs in: it is run for one round, and stands for every round."""
    return _running(_LOOPS.__contains__)


def _running(of_file: Callable[[str], bool]) -> Body | None:
    """Return the innermost frame of a file of torch's, with its call."""
    running = (frame for frame in outwards() if of_file(frame.f_code.co_filename))
    return next((Body(frame, frame.f_lasti) for frame in running), None)


def merged(size: Term, read: Callable[[Any], Term]) -> list[Formula]:
    """Return the fact that a size merged from the branches of torch.cond equals that of one branch; else no facts."""
    merging = next((frame for frame in _near() if frame.f_code.co_name == "_merge_output"), None)
    if merging is None or "s0" not in merging.f_locals:
        return []
    return [f.disjunction(*(f.eq(size, read(merging.f_locals[name])) for name in ("s0", "s1")))]


def rounds(size: Term) -> list[Formula]:
    """Return the fact that torch.while_loop, while it keeps each round for a gradient, keeps one row at least.

    A loop without a round keeps its operand. No facts if the size is something else: the number of rounds is on no node
    of a program, which keeps the last round alone.
    """
    drawing = next((frame for frame in _near() if frame.f_code.co_name == "_create_unbacked_symint"), None)
    loop = drawing.f_back if drawing is not None else None
    counting = loop is not None and loop.f_code is _LOOP and loop.f_locals["stack_output"]
    return [f.ge(size, 1)] if counting else []


def noting() -> bool:
    """True if torch asks for its own metadata: a memory format of a node, or the bytes of an input's storage.

    The trace does not depend on this metadata: the answer changes no size, stride or operator.
    """
    return any(frame.f_code is _OF_A_NODE or frame.f_code.co_filename == _FAKE_INPUTS for frame in _near())


def _near() -> Iterator[FrameType]:
    """The innermost frames of the call stack."""
    return itertools.islice(outwards(), _DEPTH_OF_A_NOTE)


def read_by_the_model() -> bool:
    """True if the model, not torch's tracer, makes the call that reaches us through the tracer's hooks."""
    codes = (frame.f_code for frame in outwards() if frame.f_code.co_name != "__torch_function__")
    asking = next((code.co_filename for code in codes if not code.co_filename.startswith((OURS, _HELPERS))), None)
    return asking is not None and not asking.startswith(_TRACER)


def read_beside_torch() -> bool:
    """True if neither torch, apart from a tensor's own methods, nor shapeproof makes the call that a mode sees."""
    codes = itertools.dropwhile(lambda code: code.co_name != "__torch_function__", (f.f_code for f in outwards()))
    files = (code.co_filename for code in codes if code.co_name != "__torch_function__")
    asking = next((file for file in files if not file.startswith(_OF_A_TENSOR)), None)
    return asking is not None and not asking.startswith((TORCH, OURS))


def walking() -> bool:
    """True if torch takes a tensor apart since Python walks over its rows."""
    modes = torch.Tensor.__torch_function__.__name__
    within = (frame for frame in outwards() if not frame.f_code.co_filename.startswith(OURS))
    return any(
        frame.f_code is _WALKING
        for frame in itertools.takewhile(lambda each: each.f_code.co_name in {modes, _WALKING.co_name}, within)
    )


_WALKING = torch.Tensor.__iter__.__code__
