"""Who asks? The user's line and torch's own, read off the call stack.

Nothing is traced or decided here.
"""

from __future__ import annotations

import functools
import inspect
import linecache
import sys
import sysconfig
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.records.decisions import SourceLocation
from shapeproof.constraints.terms import Term
from shapeproof.export.source.bytecode import index_at, instructions
from shapeproof.export.source.names import names_in, number_in
from shapeproof.export.source.places import Place

OURS = str(Path(__file__).parent.parent.parent)
"""Where this package is installed."""
_TORCH = str(Path(torch.__file__).parent)
_BODIES = str(Path(_TORCH) / "_higher_order_ops")
_INSTALLED = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib"))
_TRACER = tuple(
    str(Path(_TORCH) / name) for name in ("export", "_export", "fx", "_subclasses", "_functorch", "_dynamo")
)
"""Where torch's tracer lives. What it reads of a tensor it notes, and does not act on."""
_OPERATORS = tuple(
    str(Path(_TORCH) / name)
    for name in ("__init__.py", "_ops.py", "_meta_registrations.py", "_refs", "_prims", "_decomp", "_library")
)
"""Where torch's checks, operators and their fake kernels live."""
_HELPERS = str(Path(_TORCH) / "_prims_common")
_ENTRIES = {"trace", "run_again"}
"""Our functions that run a model or a program: what lies further out is not the user's model."""
_FAKE_INPUTS = str(Path(_TORCH) / "_subclasses" / "meta_utils.py")
_DEPTH_OF_A_NOTE = 16
_FAILING = "LOAD_ASSERTION_ERROR"
"""The instruction with which Python begins to raise what an assert statement raises."""
_WRITTEN_BY_PROGRAMS = ("<eval_with_key>", "<frozen ", "<attrs generated", "<lambdifygenerated", "<__array_function__")
"""Names of files that never were, for code that no person wrote; what `exec` and a notebook run has such a name too."""
_ASKING = ("symbolic_shapes.py", "sym_node.py", "proxy_tensor.py", "torch/__init__.py")
"""Files that carry a question and never raise it themselves."""


def place(operator: str | None, read: Callable[[Any], Term] | None = None) -> Place:
    """Where a question is asked that reaches the caller now, while an operator is being run.

    With a way to read sizes it says what the user's code calls them there.
    """
    user, framework = _frames(inspect.currentframe())
    names = names_in(user, read) if user is not None and read is not None else {}
    return Place(location(user) if user else None, operator, framework, names)


def run_again() -> str | None:
    """The operator of a graph that is run again, as torch notes it, where the caller is reached from one."""
    noted = torch.fx.traceback.get_current_meta().get("torch_fn")
    return str(noted[1]).rpartition(".")[2] if noted else None


def origin(operator: str | None) -> Place:
    """Where a number is taken from data, and as what the line has it."""
    user, framework = _frames(inspect.currentframe())
    return Place(location(user) if user else None, operator, framework, number=number_in(user) if user else None)


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
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code.co_name == "_check_with" and frame.f_code.co_filename.startswith(_TORCH):
            return frame
        frame = frame.f_back
    return None


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
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code.co_filename.startswith(_BODIES):
            return Body(frame, frame.f_lasti)
        frame = frame.f_back
    return None


def merged(size: Term, read: Callable[[Any], Term]) -> list[Formula]:
    """Where torch makes a symbol for a size on which the branches of torch.cond differ: it is that of one of them."""
    frame = inspect.currentframe()
    for _ in range(_DEPTH_OF_A_NOTE):
        if frame is None or frame.f_code.co_name == "_merge_output":
            break
        frame = frame.f_back
    if frame is None or frame.f_code.co_name != "_merge_output" or "s0" not in frame.f_locals:
        return []
    return [f.disjunction(*(f.eq(size, read(frame.f_locals[name])) for name in ("s0", "s1")))]


def raised_by_user(error: BaseException | None) -> bool:
    """Whether an error comes from a `raise` or an `assert` of the user's own code."""
    frame = _raising(error)
    return frame is not None and (is_users(frame) or not frame.f_code.co_filename.startswith((OURS, _TORCH, "<")))


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
    return raised and (not frame.f_code.co_filename.startswith(_TORCH) or frame.f_code.co_name == "_check_with")


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


def model_frames() -> list[FrameType]:
    """The frames of the model that is being traced, the innermost first; none where no model is."""
    frame = inspect.currentframe()
    found: list[FrameType] = []
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(OURS) and frame.f_code.co_name in _ENTRIES:
            return found
        if not file.startswith((OURS, _TORCH)):
            found.append(frame)
        frame = frame.f_back
    return []


def side_that_fails() -> bool | None:
    """The answer with which the model's assert statement fails that asks; None where none does, or it would go on."""
    frame = next(iter(model_frames()), None)
    return None if frame is None else failing_answer(frame)


def failing_answer(frame: FrameType) -> bool | None:
    """The answer with which the assert statement fails that a frame is at; None where it is at none, or would go on.

    `assert a or b` fails with neither answer to `a`: where that does not hold, it asks for `b`.
    """
    steps = instructions(frame.f_code)
    index = index_at(frame.f_code, frame.f_lasti)
    if index is None or "JUMP" not in steps[index].opname or "_IF_" not in steps[index].opname:
        return None
    jumps_where = "IF_TRUE" in steps[index].opname
    if _fails(frame.f_code, index_at(frame.f_code, steps[index].argval)):
        return jumps_where
    return not jumps_where if _fails(frame.f_code, index + 1) else None


def _fails(code: CodeType, index: int | None) -> bool:
    """Whether an assert statement fails that goes on at this instruction, with nothing else to compute."""
    while index is not None:
        step = instructions(code)[index]
        if step.opname not in {"POP_TOP", "JUMP_FORWARD"}:
            return step.opname == _FAILING
        index = index + 1 if step.opname == "POP_TOP" else index_at(code, step.argval)
    return False


@functools.cache
def is_users_file(file: str) -> bool:
    """Whether a file, or a cell of a notebook, is the user's."""
    return not file.startswith(("<", OURS, _TORCH, *_INSTALLED))


def is_users(frame: FrameType) -> bool:
    """Whether a frame runs code of the user's, from a file, a notebook or `exec`."""
    if not frame.f_code.co_filename.startswith("<"):
        return is_users_file(frame.f_code.co_filename)
    name = str(frame.f_globals.get("__name__")).partition(".")[0]
    home = sys.modules.get(name) if name != "__main__" else None
    installed = str(getattr(home, "__file__", None) or "").startswith((OURS, _TORCH, *_INSTALLED))
    return not installed and not _is_generated(frame)


def _is_generated(frame: FrameType) -> bool:
    """Whether code without a file was made by a program: a method of a dataclass, a guard or a wrapper of torch's."""
    code, known = frame.f_code, frame.f_globals.keys()
    made = code.co_filename.startswith(_WRITTEN_BY_PROGRAMS) or known <= {"fn", "__builtins__"}
    return made or code.co_qualname.startswith(("__create_fn__", "___make_guard_fn"))


def of_torch(where: SourceLocation) -> bool:
    """Whether a line is one of torch's own."""
    return in_torch(where.file)


def in_torch(file: str) -> bool:
    """Whether a file is one of torch's own."""
    return file.startswith(_TORCH)


def _frames(frame: FrameType | None) -> tuple[FrameType | None, SourceLocation | None]:
    """The user's innermost frame below the call into this project, and the innermost line of the library it calls.

    That is torch, or a library of models between the two; where all of the model is installed, it is the user's.
    """
    framework, library = None, None
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(OURS):
            if frame.f_code.co_name in _ENTRIES:
                break
        elif file.startswith(_TORCH):
            if framework is None and not file.endswith(_ASKING):
                framework = location(frame)
        elif file.startswith(_INSTALLED):
            library = library or frame
        elif is_users(frame):
            return frame, location(library) if library else framework
        frame = frame.f_back
    return library, framework


def noting() -> bool:
    """Whether torch asks for its own notes: a memory format on a node, or how many bytes an input's storage has.

    Nothing that is traced rests on these, and the answer changes no size, stride or operator.
    """
    frame = inspect.currentframe()
    for _ in range(_DEPTH_OF_A_NOTE):
        if frame is None:
            break
        if frame.f_code.co_name == "_extract_tensor_metadata" or frame.f_code.co_filename == _FAKE_INPUTS:
            return True
        frame = frame.f_back
    return False


def location(frame: FrameType, line: int | None = None) -> SourceLocation:
    """A line of a frame; the one that it is at if none is given."""
    number = line or frame.f_lineno
    return SourceLocation(frame.f_code.co_filename, number, linecache.getline(frame.f_code.co_filename, number).strip())


def read_by_the_model() -> bool:
    """Whether the call that reaches us through the hooks of torch's tracer is the model's, and not the tracer's own."""
    frame = inspect.currentframe()
    while frame is not None:
        file = frame.f_code.co_filename
        if not (file.startswith((OURS, _HELPERS)) or frame.f_code.co_name == "__torch_function__"):
            return not file.startswith(_TRACER)
        frame = frame.f_back
    return False
