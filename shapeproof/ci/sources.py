"""Which files a process has read: the code and the data that its verdict depends on.

Sound means: when in doubt, None, so that the model is checked again. Seen is what Python itself opens, lists or
imports, apart from what is installed, for which its version stands. Not seen is what an extension module reads by
itself, and the environment.
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.metadata
import importlib.util
import os
import pkgutil
import platform
import site
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ABSENT = "absent"
"""The digest of a file that was looked for and was not there."""

_OUTSIDE = frozenset({"socket.connect", "subprocess.Popen", "os.system", "os.posix_spawn", "os.fork", "os.exec"})
"""After one of these, the process may know anything."""

_NOT_READ = os.O_WRONLY | os.O_TRUNC | os.O_EXCL
"""Opened with one of these, a file tells nothing."""

_IMPORTERS = frozenset({"_frozen_importlib_external", "importlib._bootstrap_external", "pkgutil"})
"""Whose listings are about what can be imported, which is recorded by itself."""

_SYSTEM = ("/proc", "/sys", "/dev")


class Recorder:
    """Records what this process reads, from when it is made; what it has imported before is known without that.

    `begin` is when the process began, in nanoseconds since the epoch. A recorder cannot be taken off again.
    """

    def __init__(self, begin: int) -> None:
        self._begin = begin
        self._read: set[str] = set()
        self._listed: set[str] = set()
        self._doubtful = False
        sys.addaudithook(self._hear)

    def sources(self) -> dict[str, str] | None:
        """Path to digest of everything that was read; None if that cannot be said for sure."""
        files = self._read | set(_module_files())
        paths = {path for path in map(_source, files) if not _installed(path)}
        if self._doubtful or any(self._is_new(path) for path in paths):
            return None
        found = {path: digest(path) for path in sorted(paths) if not os.path.isdir(path)}
        listed = {os.path.join(path, "") for path in self._listed}
        importable = {os.path.join(os.path.abspath(path), "") for path in _import_folders()}
        folders = {path for path in listed if not _installed(path)}
        folders |= {f"{path}*" for path in importable if not _installed(path)}
        return found | {path: digest(path) for path in sorted(folders)}

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        """The hook: what it raised would be raised in the user's code."""
        match event, args:
            case "open", (int(), _, _):  # a descriptor, which somebody got by a path
                pass
            case "open", (str() | bytes() as path, mode, int() as flags) if mode is not None or os.path.isabs(path):
                if not flags & _NOT_READ:
                    self._read.add(_absolute(path))
            case "os.listdir" | "os.scandir", (str() | bytes() | None as path,):
                if sys._getframe(1).f_globals.get("__name__") not in _IMPORTERS:  # noqa: SLF001 - inspect is too slow
                    self._listed.add(_absolute(path or "."))
            case (("open" | "os.listdir" | "os.scandir"), _):  # by a descriptor, or relative to one as os.open may be
                self._doubtful = True
            case _:
                self._doubtful = self._doubtful or event in _OUTSIDE

    def _is_new(self, path: str) -> bool:
        """Whether the file may be another one than what was read."""
        try:
            state = os.stat(path)
        except OSError:
            return False
        return max(state.st_mtime_ns, state.st_ctime_ns) >= self._begin


def digest(path: str) -> str:
    """The digest of a file; of what is in a folder (`folder/`); of what can be imported from one (`folder/*`)."""
    try:
        if path.endswith("/*"):
            return _hash("\n".join(sorted(found.name for found in pkgutil.iter_modules([path[:-2]]))).encode())
        if path.endswith("/"):
            return _hash("\n".join(sorted(os.listdir(path))).encode())
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ABSENT


def versions() -> dict[str, str]:
    """What is installed, and the interpreter."""
    installed = importlib.metadata.distributions(path=_site_packages())
    return {
        "python": sys.version,
        "platform": platform.platform(),
        "prefix": sys.prefix,
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "packages": _hash("\n".join(sorted(f"{found.name}=={found.version}" for found in installed)).encode()),
    }


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _site_packages() -> list[str]:
    return [*site.getsitepackages(), site.getusersitepackages()]


_INSTALLED = tuple(
    os.path.join(folder, "")
    for folder in (*_site_packages(), sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), *_SYSTEM)
)


def _installed(path: str) -> bool:
    return path.startswith(_INSTALLED)


def _absolute(path: str | bytes) -> str:
    """As of now: the working directory may be another one later. Links are not followed."""
    try:
        return os.path.abspath(os.fsdecode(path))
    except OSError:  # there is no working directory
        return os.fsdecode(path)


def _module_files() -> Iterator[str]:
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str):
            yield os.path.abspath(file)


def _import_folders() -> Iterator[str]:
    """Where a new file could come before one that was imported."""
    yield from sys.path
    for module in list(sys.modules.values()):
        spec = getattr(module, "__spec__", None)
        if isinstance(spec, importlib.machinery.ModuleSpec):
            yield from spec.submodule_search_locations or ()


def _source(path: str) -> str:
    """The source of compiled code: what is read of an unchanged module is its cached form."""
    if not path.endswith(".pyc"):
        return path
    try:
        source = importlib.util.source_from_cache(path)
    except ValueError:
        return path
    return source if Path(source).exists() else path
