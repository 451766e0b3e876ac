"""The frames of torch's own functions that a call comes from, known by their names.

What asks about a size, and for what: a torch._check, a branch of torch.cond, a note on a node. Nothing is decided here.
"""

from __future__ import annotations

import itertools
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import torch

import shapeproof
from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.terms import Term

OURS = str(Path(shapeproof.__file__).parent)
"""Where this package is installed."""
TORCH = str(Path(torch.__file__).parent)
_BODIES = str(Path(TORCH) / "_higher_order_ops")
_TRACER = tuple(str(Path(TORCH) / name) for name in ("export", "_export", "fx", "_subclasses", "_functorch", "_dynamo"))
"""Where torch's tracer lives. What it reads of a tensor it notes, and does not act on."""
_HELPERS = str(Path(TORCH) / "_prims_common")
_FAKE_INPUTS = str(Path(TORCH) / "_subclasses" / "meta_utils.py")
_DEPTH_OF_A_NOTE = 17


def outwards() -> Iterator[FrameType]:
    """The frames that the caller is reached from, the innermost first; its own is the first of them.

    No frame is left that holds itself: what it holds would live until garbage is collected.
    """
    return (frame for frame, _ in traceback.walk_stack(sys._getframe(1)))


def sentence() -> str | None:
    """The user's sentence in the torch._check that reaches the caller now."""
    check = _check()
    message = check.f_locals.get("message") if check is not None else None
    return str(message()) if callable(message) else None


def raised_by_check() -> frozenset[type[BaseException]] | None:
    """What the torch._check that reaches the caller now raises where it fails; None if there is none."""
    check = _check()
    kind = check.f_locals.get("error_type") if check is not None else None
    return frozenset({kind}) if isinstance(kind, type) else None


def _check() -> FrameType | None:
    """The frame of the torch._check, or of one of its kind, that reaches the caller now."""
    return next((frame for frame in outwards() if is_check(frame)), None)


def is_check(frame: FrameType) -> bool:
    """Whether a frame is that of a torch._check, or of one of its kind."""
    return frame.f_code.co_name == "_check_with" and frame.f_code.co_filename.startswith(TORCH)


@dataclass(frozen=True, slots=True, eq=False)
class Body:
    """A run of a body of a higher-order operator (a branch of torch.cond): who runs it, and at which call."""

    frame: FrameType
    call: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Body) and self.frame is other.frame and self.call == other.call

    __hash__ = None  # type: ignore[assignment]


def body() -> Body | None:
    """The body of a higher-order operator that the caller is reached from; it may be run, or may not."""
    running = (frame for frame in outwards() if frame.f_code.co_filename.startswith(_BODIES))
    return next((Body(frame, frame.f_lasti) for frame in running), None)


def merged(size: Term, read: Callable[[Any], Term]) -> list[Formula]:
    """Where torch makes a symbol for a size on which the branches of torch.cond differ: it is that of one of them."""
    merging = next((frame for frame in _near() if frame.f_code.co_name == "_merge_output"), None)
    if merging is None or "s0" not in merging.f_locals:
        return []
    return [f.disjunction(*(f.eq(size, read(merging.f_locals[name])) for name in ("s0", "s1")))]


def noting() -> bool:
    """Whether torch asks for its own notes: a memory format on a node, or how many bytes an input's storage has.

    Nothing that is traced rests on these, and the answer changes no size, stride or operator.
    """
    return any(
        frame.f_code.co_name == "_extract_tensor_metadata" or frame.f_code.co_filename == _FAKE_INPUTS
        for frame in _near()
    )


def _near() -> Iterator[FrameType]:
    """The innermost frames that the caller is reached from."""
    return itertools.islice(outwards(), _DEPTH_OF_A_NOTE)


def read_by_the_model() -> bool:
    """Whether the call that reaches us through the hooks of torch's tracer is the model's, and not the tracer's own."""
    asking = next((frame.f_code.co_filename for frame in outwards() if not _hands_on(frame)), None)
    return asking is not None and not asking.startswith(_TRACER)


def _hands_on(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith((OURS, _HELPERS)) or frame.f_code.co_name == "__torch_function__"
