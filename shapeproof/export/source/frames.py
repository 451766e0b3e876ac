"""The user's line and torch's own line of a question, read off the call stack.

Also the place of a question, as data.
"""

from __future__ import annotations

import functools
import itertools
import linecache
import os
import sys
import sysconfig
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from shapeproof.constraints.records.decisions import SourceLocation
from shapeproof.constraints.terms import Term
from shapeproof.export.shim.callers import OURS, TORCH, is_asserting, outwards
from shapeproof.export.source.abstract import running, ways
from shapeproof.export.source.instructions import Step, instructions
from shapeproof.export.source.names import names_in, number_in
from shapeproof.wording import line_text

if TYPE_CHECKING:
    from shapeproof.export.source.names import Number

_INSTALLED = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib"))
_LIBRARIES = frozenset({"site-packages", "dist-packages"})
"""Folders of installed libraries, in this environment or in another one on `sys.path` (a `.pth` file names one)."""
_MODULES = os.path.join(TORCH, "nn", "")  # noqa: PTH118 - a Path has no separator at its end
"""Where torch has its modules and their functions: these read data for the user, who has not seen their code."""
_ENTRIES: set[CodeType] = set()
_WRITTEN_BY_PROGRAMS = ("<eval_with_key>", "<frozen ", "<attrs generated", "<lambdifygenerated", "<__array_function__")
"""File names of generated code. Code run by `exec` or a notebook also has such a name, but the user wrote it."""
_ASKING = ("symbolic_shapes.py", "sym_node.py", "proxy_tensor.py", "torch/__init__.py")
"""Files of torch that pass questions on and are never their origin."""

_Function = TypeVar("_Function", bound=Callable[..., Any])


def entry(function: _Function) -> _Function:
    """Mark one of our functions that runs a model or a program: frames further out are not the user's model."""
    _ENTRIES.add(function.__code__)
    return function


def place(operator: str | None, read: Callable[[Any], Term] | None = None) -> Place:
    """Return the place of the question that reaches the caller now, while `operator` is being run.

    Given `read`, which returns the term of a size, the place includes the user's names for the symbols.
    """
    user, framework = _frames(outwards())
    names = names_in(user, read) if user is not None and read is not None else {}
    return Place(location(user) if user else None, operator, framework, names)


def at_users_line() -> str:
    """Return the user's line that runs now, as it ends what is said of it; empty if there is none."""
    user = place(None).user
    return f", at {line_text(user)}: {user.text}" if user else ""


def run_again() -> str | None:
    """Return the operator being run, per torch's metadata, if a graph is run again; else None."""
    noted = torch.fx.traceback.get_current_meta().get("torch_fn")
    return str(noted[1]).rpartition(".")[2] if noted else None


def origin(operator: str | None) -> Place:
    """Return the place where a number is read from data, with the expression of that number; torch's line if in nn."""
    user, _ = _frames(outwards())
    inner = itertools.takewhile(lambda frame: frame is not user, outwards())
    read = next((location(frame) for frame in inner if frame.f_code.co_filename.startswith(_MODULES)), None)
    return Place(location(user) if user else None, operator, read, number=number_in(user) if user else None)


def model_frames() -> list[FrameType]:
    """The frames of the model that is being traced, the innermost first; empty if no model is traced."""
    found: list[FrameType] = []
    for frame in outwards():
        if frame.f_code in _ENTRIES:
            return found
        if not frame.f_code.co_filename.startswith((OURS, TORCH)):
            found.append(frame)
    return []


def side_that_fails() -> bool | None:
    """Return the answer that makes the model's current assertion fail; None if there is no such answer."""
    frame = next(iter(model_frames()), None)
    return False if is_asserting() else None if frame is None else failing_answer(frame)


@functools.cache
def is_users_file(file: str) -> bool:
    """True if a file, or a cell of a notebook, is the user's, not an installed library's."""
    return not (file.startswith(("<", OURS, TORCH, *_INSTALLED)) or _LIBRARIES.intersection(Path(file).parts))


def is_users(frame: FrameType) -> bool:
    """True if a frame runs the user's code, from a file, a notebook or `exec`."""
    if not frame.f_code.co_filename.startswith("<"):
        return is_users_file(frame.f_code.co_filename)
    name = str(frame.f_globals.get("__name__")).partition(".")[0]
    home = sys.modules.get(name) if name != "__main__" else None
    installed = str(getattr(home, "__file__", None) or "").startswith((OURS, TORCH, *_INSTALLED))
    return not installed and not _is_generated(frame)


def _is_generated(frame: FrameType) -> bool:
    """True if code without a file is generated: a method of a dataclass, or a guard or wrapper of torch's."""
    code, known = frame.f_code, frame.f_globals.keys()
    made = code.co_filename.startswith(_WRITTEN_BY_PROGRAMS) or known <= {"fn", "__builtins__"}
    return made or code.co_qualname.startswith(("__create_fn__", "___make_guard_fn"))


def in_torch(file: str) -> bool:
    """True if a file is torch's own."""
    return file.startswith(TORCH)


def _frames(frames: Iterable[FrameType]) -> tuple[FrameType | None, SourceLocation | None]:
    """The user's innermost frame inside the entry of this project, and the innermost line of the library that it calls.

    The library is torch, or a library of models between the two. If the whole model is installed, its innermost frame
    counts as the user's.
    """
    framework, library = None, None
    for frame in frames:
        file = frame.f_code.co_filename
        match _owner(file):
            case "ours":
                if frame.f_code in _ENTRIES:
                    break
            case "torch":
                framework = framework or location(frame)
            case "other" if is_users(frame):
                return frame, location(library) if library else framework
            case "other" if not file.startswith("<"):
                library = library or frame
    return library, framework


@functools.cache
def _owner(file: str) -> str:
    """Whose a file is, "ours", "torch" or "other"; "" of torch's files that only pass questions on."""
    if file.startswith(OURS):
        return "ours"
    if not file.startswith(TORCH):
        return "other"
    return "" if file.endswith(_ASKING) else "torch"


def location(frame: FrameType, line: int | None = None) -> SourceLocation:
    """Return a line of a frame as a location, by default its current line."""
    return line_of(frame.f_code, line or frame.f_lineno)


def line_of(code: CodeType, line: int) -> SourceLocation:
    """Return a line of code as a location."""
    return SourceLocation(code.co_filename, line, linecache.getline(code.co_filename, line).strip())


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a question: the user's line, the operator being run, torch's own line.

    `names` maps symbols to the user's names at that line, if they were looked up. `number` is the number being computed
    there, if any.
    """

    user: SourceLocation | None = None
    operator: str | None = None
    framework: SourceLocation | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    number: Number | None = None


def failing_answer(frame: FrameType) -> bool | None:
    """Return the answer that makes the assert statement at a frame fail; None if there is none.

    In `assert a or b`, no answer to `a` fails by itself: if `a` is false, the statement asks for `b`.
    """
    steps, index = instructions(frame.f_code), running(frame)
    if index is None:
        return None
    index += steps[index].does == "truth"
    if not steps[index].does.startswith("if "):
        return None
    jumps_where = steps[index].does == "if true"
    if _fails(steps, steps[index].value):
        return jumps_where
    return not jumps_where if _fails(steps, index + 1) else None


def _fails(steps: Sequence[Step], index: int) -> bool:
    """True if the code at a step raises the AssertionError without computing anything else."""
    while steps[index].does in {"pop", "jump"} and (after := ways(steps, index)[0]) > index:
        index = after
    return steps[index].does == "failing"
