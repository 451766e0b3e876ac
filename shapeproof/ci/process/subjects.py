"""Imports and calls the target, `module:callable` or `file.py:callable`, and passes its result on.

This code runs the user's code: its exceptions become a sentence with the user's line (tracebacks.py).
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import io
import logging
import operator
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TextIO

from shapeproof.ci.process.tracebacks import sentence
from shapeproof.ci.specs.spec_errors import FORM
from shapeproof.constraints.errors import InternalError, UsageError, nearest
from shapeproof.export.shim.versions import check_version
from shapeproof.solver.ledger import heard_by

if TYPE_CHECKING:
    from shapeproof.export import Report
    from shapeproof.export.declare.inputs import Inputs
    from shapeproof.export.source.declared_at import Where
    from shapeproof.seen import Seen

RETURNS = "(model, args, kwargs, dynamic_shapes) or (model, args, kwargs, dynamic_shapes, constraints)"


@dataclass(frozen=True, slots=True)
class Subject:
    """A model, its example inputs and its declarations."""

    model: Any
    args: Any
    kwargs: Any
    dynamic_shapes: Any
    constraints: Sequence[str] = ()
    narrow: bool = False
    splitting: bool = False
    where: Where = lambda _: None
    """Finds the source line of a declaration."""
    seen: Seen | None = None
    """The profile of inputs that the model has been given; the program must serve all of them."""


def load_subject(target: str) -> Subject:
    """Import and call the target.

    Raises:
        UsageError: the target cannot be imported or called, or it returns something else.
    """
    build = _found(target)
    found = _called(target, build)
    from shapeproof.export.source.declared_at import in_the_file_of  # loads torch, as the model has by now

    if not isinstance(found, tuple | list) or len(found) not in {4, 5}:
        alone = "; of a model alone `shapeproof init TARGET EXAMPLE` writes a spec" if callable(found) else ""
        raise UsageError(f"`{target}` must return {RETURNS}, but it returned {_brief(found)}{alone}")
    return replace(Subject(*found), where=in_the_file_of(build))


def call_target(target: str) -> Any:
    """Import the target, call it without arguments and return its result.

    Raises:
        UsageError: the target cannot be imported, found or called.
    """
    return _called(target, _found(target))


def _found(target: str) -> Any:
    place, _, path = target.rpartition(":")
    if not place or not path:
        raise UsageError(f"{target!r} is not of the form {FORM}")
    _import_from(Path.cwd())
    with refused(f"`{place}` cannot be imported"):
        module = _imported_file(Path(place)) if is_file(place) else importlib.import_module(place)
    try:
        return operator.attrgetter(path)(module)
    except AttributeError:
        known = _callables(module)
        raise UsageError(f"`{place}` has no `{path}`{nearest(path, known) if known else ''}") from None


def is_file(place: str) -> bool:
    """True if the text is the path of a file, not the name of a module."""
    return place.endswith(".py") or "/" in place


def _imported_file(path: Path) -> ModuleType:
    """Import the module in a file: as part of its package if it is in one, else as a top-level module.

    Raises:
        UsageError: there is no such file, or another module is imported under its name.
    """
    file = path.resolve()
    if not file.is_file():
        raise UsageError(f"there is no file {path}")
    root = next(folder for folder in file.parents if not (folder / "__init__.py").is_file())
    _import_from(root)
    if root == file.parent:
        return _imported_alone(file)
    name = ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
    module = importlib.import_module(name)
    if Path(module.__file__ or "").resolve() != file:
        raise UsageError(f"{path} is the module `{name}`, but {module.__file__} is imported as that")
    return module


def _imported_alone(file: Path) -> ModuleType:
    """Import a file that is in no package; if its name is taken (`json.py`), the module gets another name."""
    free = file.stem.isidentifier() and file.stem not in sys.modules
    name = file.stem if free else f"file_{file.stem.replace('.', '_')}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise UsageError(f"{file} is not a file of Python")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _import_from(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _callables(module: ModuleType) -> list[str]:
    """Names of the public callables that a module defines."""
    found = {name: each for name, each in vars(module).items() if not name.startswith("_") and callable(each)}
    return [name for name, each in found.items() if inspect.getmodule(each) is module]


def _called(target: str, build: Any) -> Any:
    with refused(f"`{target}` cannot be called"):
        return build()


def check_subject(subject: Subject, progress: Callable[[str], None]) -> Report:
    """Check the model. This loads torch.

    Raises:
        UsageError: the declarations are invalid, or the model cannot be traced at its example.
    """
    check_version()
    with refused("the exporter cannot be loaded"):
        from shapeproof.export.api import verdict
        from shapeproof.export.forms.seen.against_seen import held_against
        from shapeproof.export.verify import verified
    model, seen = subject.model, subject.seen

    def verify(inputs: Inputs) -> Report:
        report = verified(model, inputs, narrow=subject.narrow, splitting=subject.splitting, progress=progress)
        return report if seen is None else held_against(model, report, inputs, seen)

    with refused("the model could not be traced"):
        return verdict(
            verify, model, subject.args, subject.kwargs, subject.dynamic_shapes, subject.constraints, subject.where
        )


class _Told(logging.Handler):
    """Tells each line of a log once."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__()
        self._tell, self._told = tell, set[str]()

    def emit(self, record: logging.LogRecord) -> None:
        """Tell a line, if it is new."""
        line = record.getMessage()
        if line not in self._told:
            self._told.add(line)
            self._tell(line)


def questions_told(tell: Callable[[str], None]) -> AbstractContextManager[None]:
    """Tell each question that torch and the solver are asked inside the block, with its answer."""
    return heard_by(_Told(tell))


@contextlib.contextmanager
def beside() -> Iterator[None]:
    """Redirect the user's prints inside this block to stderr; if the user's code closes its streams, ours stay open."""
    with contextlib.redirect_stdout(_Shared(sys.stderr)), contextlib.redirect_stderr(_Shared(sys.stderr)):
        yield


class _Shared(io.TextIOBase):
    """A stream that writes to another stream without closing it."""

    encoding = ""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        for name in ("write", "flush", "fileno", "isatty", "encoding"):
            setattr(self, name, getattr(stream, name))


@contextlib.contextmanager
def refused(what: str) -> Iterator[None]:
    """Turn any exception of the user's code into a `UsageError`; `sys.exit` in it must not pass for a verdict."""
    try:
        yield
    except (UsageError, KeyboardInterrupt, GeneratorExit):
        raise
    except InternalError as error:
        raise UsageError(str(error)) from error
    except BaseException as error:
        raise UsageError(sentence(what, error)) from error


def _brief(value: object) -> str:
    size = f" of {len(value)}" if isinstance(value, tuple | list) else ""
    return f"a {type(value).__name__}{size}"
