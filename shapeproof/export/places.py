"""Who asks? The user's line and torch's own, read off the call stack.

Nothing is traced or decided here.
"""

from __future__ import annotations

import inspect
import linecache
from pathlib import Path
from types import FrameType

import torch

from shapeproof.constraints.decisions import SourceLocation
from shapeproof.export.trial import Place

OURS = str(Path(__file__).parent.parent)
"""Where this package is installed."""
_TORCH = str(Path(torch.__file__).parent)
_ENTRIES = {"trace", "run_again"}
"""Our functions that run a model or a program: what lies further out is not the user's model."""
_DEPTH_OF_A_NOTE = 16
_ASKING = ("symbolic_shapes.py", "sym_node.py", "proxy_tensor.py", "torch/__init__.py")
"""Files that carry a question and never raise it themselves."""


def place(operator: str | None) -> Place:
    """Where a question is asked that reaches the caller now, while an operator is being run."""
    user, framework = _frames(inspect.currentframe())
    return Place(user, operator, framework)


def _frames(frame: FrameType | None) -> tuple[SourceLocation | None, SourceLocation | None]:
    """The innermost line of the user's code below the call into this project, and the innermost line of torch's."""
    framework = None
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(OURS):
            if frame.f_code.co_name in _ENTRIES:
                break
        elif file.startswith(_TORCH):
            if framework is None and not file.endswith(_ASKING):
                framework = _location(frame)
        elif not file.startswith("<"):
            return _location(frame), framework
        frame = frame.f_back
    return None, framework


def noting() -> bool:
    """Whether torch is only noting a tensor's memory format on a node, which nothing here relies on."""
    frame = inspect.currentframe()
    for _ in range(_DEPTH_OF_A_NOTE):
        if frame is None:
            break
        if frame.f_code.co_name == "_extract_tensor_metadata":
            return True
        frame = frame.f_back
    return False


def _location(frame: FrameType) -> SourceLocation:
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
    return SourceLocation(frame.f_code.co_filename, frame.f_lineno, line)
