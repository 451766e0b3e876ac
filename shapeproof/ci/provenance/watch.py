"""Observes what the code of this process asks of the operating system.

Python's audit events report files that are opened, folders that are listed, connections and new processes. They do not
report `os.stat` and `os.environ`, so these are replaced by versions that report to a listener and give the same
answers.
"""

from __future__ import annotations

import ctypes  # noqa: F401 - opens the process itself when it is first loaded
import os
import sys
from collections.abc import Callable, ItemsView, Iterator, ValuesView
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar

ALL = "*"
"""In place of a variable's name: the code has iterated over all variables."""

_LOOKS = ("stat", "lstat", "access", "readlink")
"""Functions of `os` that tell something about a path and raise no audit event."""

_SETS = (os.supports_fd, os.supports_dir_fd, os.supports_follow_symlinks, os.supports_effective_ids)


def watch(
    audited: Callable[[str, tuple[Any, ...]], None],
    looked_at: Callable[[str | bytes], None],
    variable: Callable[[str], None],
) -> None:
    """Report from now on, which cannot be undone. An exception of a listener would be raised in the user's code.

    Args:
        audited: receives each audit event.
        looked_at: receives each path whose state is queried.
        variable: receives the name of each environment variable that is read, or ALL.
    """
    for name in _LOOKS:
        _replace(name, looked_at)
    _Variables.hear = variable
    for variables in (os.environ, os.environb):
        variables.__class__ = _Variables
    sys.addaudithook(audited)


def _replace(name: str, hear: Callable[[str | bytes], None]) -> None:
    original = getattr(os, name)

    def look(path: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(path, int):
            hear(os.fspath(path))
        return original(path, *args, **kwargs)

    look.__name__, look.__doc__ = name, original.__doc__
    setattr(os, name, look)
    for known in _SETS:
        if original in known:
            known.add(look)


class _Variables(os._Environ):  # type: ignore[type-arg]  # noqa: SLF001 - `os.environ` is one, and must stay one
    """`os.environ` with reads reported."""

    hear: ClassVar[Callable[[str], None]] = staticmethod(lambda _: None)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str | bytes):
            type(self).hear(os.fsdecode(key))
        return super().__getitem__(key)

    def __iter__(self) -> Iterator[Any]:
        type(self).hear(ALL)
        return super().__iter__()

    def items(self) -> ItemsView[Any, Any]:
        return self.copy().items()

    def values(self) -> ValuesView[Any]:
        return self.copy().values()

    def copy(self) -> dict[Any, Any]:
        type(self).hear(ALL)
        return {self.decodekey(key): self.decodevalue(value) for key, value in self._data.items()}  # type: ignore[attr-defined]


_STANDARD = f"{Path(os.__file__).parent}/"
_OWN = f"{Path(__file__).absolute().parents[2]}/"
_WATCHERS = (__file__, str(Path(__file__).with_name("sources.py")))


def asked_by(installed: tuple[str, ...]) -> bool:
    """True if a package in one of these folders, or this package, asks now; false if the user's code does.

    The standard library asks on behalf of its caller.
    """
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - inspect is too slow
    while frame is not None:
        file = frame.f_code.co_filename
        if file not in _WATCHERS and not _is_standard(file):
            return file.startswith((*installed, _OWN))
        frame = frame.f_back
    return False


def _is_standard(file: str) -> bool:
    if file.startswith("<frozen"):
        return True
    return file.startswith(_STANDARD) and not {"site-packages", "dist-packages"} & set(Path(file).parts)
