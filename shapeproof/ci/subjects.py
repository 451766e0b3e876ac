"""What is checked: imports and calls `module.path:callable`, and hands what it returns to the checker.

It is the user's code that runs here: whatever it raises becomes one sentence with the user's line.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import importlib
import operator
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shapeproof.constraints.errors import UsageError
from shapeproof.export.shim.versions import check_version
from shapeproof.export.source.declared_at import Where, in_the_file_of, nowhere

if TYPE_CHECKING:
    from shapeproof.export import Report
    from shapeproof.seen import Seen

RETURNS = "(model, args, kwargs, dynamic_shapes) or (model, args, kwargs, dynamic_shapes, constraints)"

_NOT_THE_USERS = {"contextlib", "copy", "importlib", "shapeproof", "torch"}


@dataclass(frozen=True, slots=True)
class Subject:
    """A model, its example and what is declared of it."""

    model: Any
    args: Any
    kwargs: Any
    dynamic_shapes: Any
    constraints: Sequence[str] = ()
    narrow: bool = False
    splitting: bool = False
    where: Where = nowhere
    """Where what is declared is written."""
    seen: Seen | None = None
    """What it was seen to be given, all of which is to be served."""


def load_subject(target: str) -> Subject:
    """Import and call the target.

    Raises:
        UsageError: it cannot be done, or what it returns is something else.
    """
    build = _found(target)
    found = _called(target, build)
    if not isinstance(found, tuple | list) or len(found) not in {4, 5}:
        alone = "; what returns a model alone needs inputs in a spec" if callable(found) else ""
        raise UsageError(f"`{target}` must return {RETURNS}, but it returned {_brief(found)}{alone}")
    return replace(Subject(*found), where=in_the_file_of(build))


def call_target(target: str) -> Any:
    """What the target returns when it is called without arguments.

    Raises:
        UsageError: it cannot be imported, found or called.
    """
    return _called(target, _found(target))


def _found(target: str) -> Any:
    module_name, _, path = target.partition(":")
    if not module_name or not path:
        raise UsageError(f"{target!r} is not of the form module.path:callable")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    with refused(f"`{module_name}` cannot be imported"):
        module = importlib.import_module(module_name)
    try:
        return operator.attrgetter(path)(module)
    except AttributeError:
        near = difflib.get_close_matches(path, dir(module), n=1)
        hint = f"; did you mean `{near[0]}`?" if near else ""
        raise UsageError(f"`{module_name}` has no `{path}`{hint}") from None


def _called(target: str, build: Any) -> Any:
    with refused(f"`{target}` cannot be called"):
        return build()


def check_subject(subject: Subject, progress: Callable[[str], None]) -> Report:
    """Check the model. To do so loads torch.

    Raises:
        UsageError: the declarations cannot be meant, or the model cannot be traced at its own example.
    """
    check_version()
    with refused("the exporter cannot be loaded"):
        from shapeproof.export.against_seen import held_against
        from shapeproof.export.declare.inputs import declare
        from shapeproof.export.serving import verdict
        from shapeproof.export.verify import verified
    with refused("the model could not be traced"):
        given = (
            subject.model,
            subject.args,
            subject.kwargs,
            subject.dynamic_shapes,
            subject.constraints,
            subject.where,
        )
        verify = functools.partial(
            verified, subject.model, narrow=subject.narrow, splitting=subject.splitting, progress=progress
        )
        if subject.seen is None:
            return verdict(verify, *given)
        inputs = declare(*given)
        return held_against(subject.model, verify(inputs), inputs, subject.seen)


@contextlib.contextmanager
def refused(what: str) -> Iterator[None]:
    """Whatever the user's code raises becomes one sentence; `sys.exit` in it must not pass for a verdict."""
    try:
        yield
    except UsageError:
        raise
    except (Exception, SystemExit) as error:
        raise UsageError(f"{what}: {_last_line(error)}{_place(error)}") from error


def _brief(value: object) -> str:
    size = f" of {len(value)}" if isinstance(value, tuple | list) else ""
    return f"a {type(value).__name__}{size}"


def _last_line(error: BaseException) -> str:
    """The error as the last line of a traceback shows it; of a message of many lines, the first."""
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def _place(error: BaseException) -> str:
    """The innermost line of the user's code that the error went through."""
    place = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        file = Path(frame.f_code.co_filename)
        if str(frame.f_globals.get("__name__")).partition(".")[0] not in _NOT_THE_USERS and file.exists():
            place = f" ({file.name}:{line})"
    return place
