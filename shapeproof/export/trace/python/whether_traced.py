"""Note where a model asks whether it is traced: `torch.compiler.is_compiling()`, `torch.compiler._is_exporting_flag`.

Such code behaves differently in eager, and no question about a size reveals it. Only runs beside eager compare the two
there, so the report names the line. The answers stay torch's.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from types import FunctionType, ModuleType
from typing import Any

import torch

from shapeproof.constraints.records.decisions import SourceLocation
from shapeproof.export.shim.replaced import bound
from shapeproof.export.source.frames import is_users_file, location
from shapeproof.wording import line_text

_noted: ContextVar[dict[SourceLocation, str] | None] = ContextVar("noted", default=None)


def noting() -> AbstractContextManager[dict[SourceLocation, str]]:
    """Inside this block, collect the lines where traced models ask, and the names of the functions that they call."""
    return bound(_noted, {})


def asked() -> bool:
    """True if a line of the user's has asked so far."""
    return any(is_users_file(where.file) for where in _noted.get() or ())


def _asking(original: Callable[[], bool]) -> Callable[[], bool]:
    """Return the function as a model calls it in a trace."""

    @functools.wraps(original)
    def called() -> bool:
        return _answer(original, location(sys._getframe(1)))  # noqa: SLF001 - who calls it

    return called


def _answer(original: Callable[[], bool], where: SourceLocation) -> bool:
    _note(where, original.__name__)
    return original()


def _note(where: SourceLocation, name: str) -> None:
    noted = _noted.get()
    if noted is not None:
        noted[where] = name


_FLAGS = tuple(name for name in vars(torch.compiler) if name.startswith("_is_") and name.endswith("_flag"))


class Compiler(ModuleType):
    """`torch.compiler` as a model reads it in a trace: its functions set flags that say so, too."""

    def __getattribute__(self, name: str) -> Any:
        """Note a flag that is read, and return what it is now."""
        if name not in _FLAGS:
            return super().__getattribute__(name)
        _note(location(sys._getframe(1)), name)  # noqa: SLF001 - who reads it
        return getattr(torch.compiler, name)


_FUNCTIONS: Mapping[str, tuple[str, ...]] = {
    "compiler": ("is_compiling", "is_exporting"),
    "_dynamo": ("is_compiling",),
    "_utils": ("is_compiling",),
}
ASKING: Mapping[str, Mapping[str, Callable[..., Any]]] = {
    f"torch.{module}": dict.fromkeys(names, _asking) | (dict.fromkeys(_FLAGS, bool) if module == "compiler" else {})
    for module, names in _FUNCTIONS.items()
}
"""By module, the functions and flags of torch that tell whether code is traced, and the maker of their replacements."""
_ASKED = {getattr(getattr(torch, module), name) for module, names in _FUNCTIONS.items() for name in names}
_REPLACEMENT = _asking(torch.compiler.is_compiling).__code__


def answered(function: FunctionType, where: SourceLocation) -> bool | None:
    """Return torch's answer to a call of such a function, or of its replacement; None for any other function.

    A line of the user's is noted, as in a trace; there the functions of installed libraries are not replaced.
    """
    original = inspect.unwrap(function) if function.__code__ is _REPLACEMENT else function
    if original not in _ASKED:
        return None
    return _answer(original, where) if is_users_file(where.file) else bool(original())


def asked_note(where: SourceLocation, name: str) -> str:
    """Return the note about a line.

    >>> asked_note(SourceLocation("model.py", 12, ""), "is_compiling")
    'model.py:12 asks whether it is traced (`is_compiling`): what follows was compared with eager by runs alone'
    """
    what = "what follows was compared with eager by runs alone"
    return f"{line_text(where)} asks whether it is traced (`{name}`): {what}"
