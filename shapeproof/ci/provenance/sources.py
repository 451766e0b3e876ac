"""Which part of the machine a process has read: the code, the data and the variables that its verdict depends on.

Sound means: when in doubt, None, so that the model is checked again. Law: what is named here and has the same digest
later gives the same verdict. Not seen is what an extension module reads by itself outside the working directory.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import resource
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shapeproof.ci.provenance.identity import ALL_VARIABLES, INSTALLED, digest, state
from shapeproof.ci.provenance.opened import Opened
from shapeproof.ci.provenance.watch import ALL, asked_by, watch

_OUTSIDE = frozenset(
    {"os.exec", "os.fork", "os.forkpty", "os.getxattr", "os.listxattr", "os.posix_spawn", "os.spawn", "os.system"}
    | {"pty.spawn", "subprocess.Popen", "urllib.Request"}
    | {f"socket.{name}" for name in ("connect", "sendto", "sendmsg", "getaddrinfo", "gethostbyname", "gethostbyaddr")}
)
"""After one of these, the process may know anything."""

_NOT_READ = os.O_WRONLY | os.O_TRUNC | os.O_EXCL
"""Opened with one of these, a file tells nothing."""

_IMPORTERS = frozenset({"_frozen_importlib_external", "importlib._bootstrap_external", "importlib.metadata", "pkgutil"})
"""Whose listings are about what can be imported."""

_KERNEL = ("/proc/", "/sys/")
_EMPTY = frozenset({"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"})
"""Devices that hold nothing which could change."""


class Recorder:
    """Records what this process reads, from when it is made; what it has imported before is known without that.

    `begin` is when the process began, in nanoseconds since the epoch. A recorder cannot be taken off again.
    """

    def __init__(self, begin: int) -> None:
        self._begin = begin
        self._read: dict[str, str | None] = {}
        """Each file that was opened, and its state then; None where it was not there."""
        self._folders: dict[str, str] = {}
        """Each folder that was listed (`folder/`) or imported from (`folder/*`), and each path that was looked at
        (`stat:path`): its digest then."""
        self._written: set[str] = set()
        self._made: set[str] = set()
        """Folders that the process has made: what it then finds there is no news."""
        self._variables: dict[str, str] = {}
        self._environment = dict(os.environ)
        self._doubtful = False
        self._silent = False
        for folder in _import_folders():
            self._note_folder(f"{folder}/*")
        self._opened_below = Opened(os.getcwd())
        watch(self)

    def sources(self) -> dict[str, str] | None:
        """What was read to its digest, apart from what is installed; None if that cannot be said for sure."""
        self._silent = True
        self._add_unseen()
        files = self._files()
        if self._doubtful or _has_children() or _has_unknown_code() or not self._is_settled(files):
            return None
        found = {path: digest(path) for path in sorted(files) if not _installed(path) and not os.path.isdir(path)}
        found |= {key: known for key, known in sorted(self._folders.items()) if not _installed(key)}
        return found | {f"env:{name}": known for name, known in sorted(self._variables.items())}

    def installed(self) -> dict[str, str]:
        """The installed files that were read, by path, and the state of each (see `identity.contents`)."""
        self._silent = True
        files = {path: state(path) for path in sorted(self._files()) if _installed(path)}
        found = {path: known for path, known in files.items() if known is not None}
        return found | {key: known for key, known in sorted(self._folders.items()) if _installed(key)}

    def _add_unseen(self) -> None:
        """What was opened by code that raises no audit event."""
        found = self._opened_below.paths()
        self._doubtful = self._doubtful or found is None
        for path in (found or set()) - self._read.keys() - self._written:
            if (known := state(path)) is None or known.startswith("file"):
                self._read[path] = known

    def _files(self) -> set[str]:
        return {path for path in (*self._read, *map(_source, _module_files())) if not path.startswith(_KERNEL)}

    def _is_settled(self, files: set[str]) -> bool:
        """Whether everything is now as it was when it was read."""
        for folder in _import_folders():
            self._note_folder(f"{folder}/*")
        return (
            all(self._folders[key] == digest(key) for key in self._folders.keys() - self._made)
            and all(state(path) == known for path, known in self._read.items() if path in files)
            and not any(self._is_new(path) for path in files if not _installed(path))
        )

    def audited(self, event: str, args: tuple[Any, ...]) -> None:
        """The hook: what it raised would be raised in the user's code."""
        if self._silent or event.startswith(("object.", "import")):
            return
        match event, args:
            case "open", (int(), _, _):  # a descriptor, which somebody got by a path
                pass
            case "open", (str() | bytes() as path, mode, int() as flags) if mode is not None or os.path.isabs(path):
                if flags & _NOT_READ:
                    self._written.add(_absolute(path))
                else:
                    self._opened(_absolute(path))
            case "os.listdir" | "os.scandir", (str() | bytes() | None as path,):
                lister = sys._getframe(1).f_globals.get("__name__")  # noqa: SLF001 - inspect is too slow
                self._note_folder(os.path.join(_absolute(path or "."), "*" if lister in _IMPORTERS else ""))
            case (("open" | "os.listdir" | "os.scandir"), _):  # by a descriptor, or relative to one as os.open may be
                self._doubtful = True
            case "os.mkdir", (str() | bytes() as path, _, _):
                self._made.add(f"stat:{_absolute(path)}")
            case "sqlite3.connect", _:
                self._doubtful = self._doubtful or args != (":memory:",)
            case "ctypes.dlopen", (str() | bytes() | os.PathLike() | None as name,):
                self._doubtful = self._doubtful or not asked_by(INSTALLED)
                if name is not None and os.path.isabs(name):
                    self._opened(_absolute(os.fspath(name)))
            case _:
                self._doubtful = self._doubtful or event in _OUTSIDE

    def looked_at(self, path: str | bytes) -> None:
        """It matters whether there is something at the path, and what."""
        if self._silent or sys.is_finalizing():
            return
        found = _absolute(path)
        if not _installed(found) and not found.startswith(_KERNEL):
            self._note_folder(f"stat:{found}")

    def variable(self, name: str) -> None:
        """An environment variable matters, or all do: a package that goes through them looks for its own."""
        if self._silent or (name == ALL and asked_by(INSTALLED)):
            return
        self._variables[name] = digest(ALL_VARIABLES if name == ALL else f"env:{name}", self._environment)

    def _opened(self, path: str) -> None:
        path = _source(path)
        if path.startswith(_KERNEL):
            self._doubtful = self._doubtful or not asked_by(INSTALLED)
        elif path not in self._read and path not in _EMPTY:
            self._read[path] = known = state(path)
            self._doubtful = self._doubtful or (known is not None and known.startswith("special"))

    def _note_folder(self, key: str) -> None:
        if key not in self._folders:
            silent, self._silent = self._silent, True
            self._folders[key] = digest(key)
            self._silent = silent

    def _is_new(self, path: str) -> bool:
        """Whether the file may be another one than what was read."""
        try:
            found = os.stat(path)
        except OSError:
            return False
        return stat.S_ISREG(found.st_mode) and max(found.st_mtime_ns, found.st_ctime_ns) >= self._begin


def _installed(path: str) -> bool:
    return path.startswith(INSTALLED)


def _absolute(path: str | bytes) -> str:
    """As of now: the working directory may be another one later. Links are not followed."""
    try:
        return os.path.abspath(os.fsdecode(path))
    except OSError:  # there is no working directory
        return os.fsdecode(path)


def _has_children() -> bool:
    """Whether another process was begun, by whatever means: one has ended, or one lives."""
    if resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss:
        return True
    tasks = Path("/proc/self/task").glob("*/children")
    return any(task.read_text(encoding="ascii").strip() for task in tasks)


def _has_unknown_code() -> bool:
    """Whether a module comes from a loader of the user's that names no file."""
    for module in list(sys.modules.values()):
        spec = getattr(module, "__spec__", None)
        if isinstance(spec, importlib.machinery.ModuleSpec) and spec.loader is not None and not spec.has_location:
            kind = spec.loader if isinstance(spec.loader, type) else type(spec.loader)
            if spec.submodule_search_locations is None and not _is_known(kind):
                return True
    return False


def _is_known(loader: type) -> bool:
    """Whether the class of a loader is Python's or an installed package's."""
    home = sys.modules.get(loader.__module__)
    file = getattr(home, "__file__", None)
    return _installed(file) if isinstance(file, str) else loader.__module__.startswith("_frozen_importlib")


def _module_files() -> Iterator[str]:
    for module in list(sys.modules.values()):
        for file in (getattr(module, "__file__", None), getattr(getattr(module, "__spec__", None), "origin", None)):
            if isinstance(file, str) and os.path.isabs(file):
                yield os.path.abspath(file)


def _import_folders() -> Iterator[str]:
    """Where a new file could come before one that was imported, or in place of one that was not found."""
    for path in sys.path:
        yield os.path.abspath(path)
    for module in list(sys.modules.values()):
        spec = getattr(module, "__spec__", None)
        if isinstance(spec, importlib.machinery.ModuleSpec):
            for path in spec.submodule_search_locations or ():
                yield os.path.abspath(path)


def _source(path: str) -> str:
    """The source of compiled code: what is read of an unchanged module is its cached form."""
    if not path.endswith(".pyc"):
        return path
    try:
        source = importlib.util.source_from_cache(path)
    except ValueError:
        return path
    return source if state(source) is not None else path
