"""Records what a process has read: the code, data and variables that its verdict depends on.

Law: if everything named here has the same digest later, the verdict is the same. When in doubt, the result is None, and
the model is checked again. One gap: files that an extension module reads outside the working directory.
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
"""After one of these events, the process may know anything."""

_NOT_READ = os.O_WRONLY | os.O_TRUNC | os.O_EXCL
"""Opened with one of these flags, a file tells the process nothing."""

_IMPORTERS = frozenset({"_frozen_importlib_external", "importlib._bootstrap_external", "importlib.metadata", "pkgutil"})
"""Modules that list a folder only to learn what can be imported."""

_KERNEL = ("/proc/", "/sys/")
_EMPTY = frozenset({"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"})
"""Devices without content that could change."""


class Recorder:
    """Records what this process reads from now on; modules imported before are taken from `sys.modules`.

    `begin` is the start time of the process, in nanoseconds since the epoch. A recorder cannot be removed.
    """

    def __init__(self, begin: int) -> None:
        self._begin = begin
        self._read: dict[str, str | None] = {}
        """Each file that was opened, with its state at that time; None if it was absent."""
        self._folders: dict[str, str] = {}
        """The digest at the time of each folder that was listed (`folder/`) or imported from (`folder/*`), and of each
        path that was looked at (`stat:path`).
        """
        self._written: set[str] = set()
        self._made: set[str] = set()
        """Folders that the process has made: their later content is not an input."""
        self._variables: dict[str, str] = {}
        self._environment = dict(os.environ)
        self._doubtful = False
        self._silent = False
        self._ended = _ended()
        """A measure of the processes that ended earlier: installed packages start some when they are imported."""
        for folder in _import_folders():
            self._note_folder(f"{folder}/*")
        self._opened_below = Opened(os.getcwd())
        watch(self.audited, self.looked_at, self.variable)

    def sources(self) -> dict[str, str] | None:
        """Return the digest of each source except installed files; None if the sources are not known for sure."""
        self._silent = True
        self._add_unseen()
        files = self._files()
        if (
            self._doubtful
            or _ended() != self._ended
            or _has_children()
            or _has_unknown_code()
            or not self._is_settled(files)
        ):
            return None
        found = {path: digest(path) for path in sorted(files) if not _installed(path) and not os.path.isdir(path)}
        found |= {key: known for key, known in sorted(self._folders.items()) if not _installed(key)}
        return found | {f"env:{name}": known for name, known in sorted(self._variables.items())}

    def installed(self) -> dict[str, str]:
        """Return the state of each installed file that was read (see `identity.contents`)."""
        self._silent = True
        files = {path: state(path) for path in sorted(self._files()) if _installed(path)}
        found = {path: known for path, known in files.items() if known is not None}
        return found | {key: known for key, known in sorted(self._folders.items()) if _installed(key)}

    def _add_unseen(self) -> None:
        """Add the files opened by code that raises no audit event."""
        found = self._opened_below.paths()
        self._doubtful = self._doubtful or found is None
        for path in (found or set()) - self._read.keys() - self._written:
            if (known := state(path)) is None or known.startswith("file"):
                self._read[path] = known

    def _files(self) -> set[str]:
        return {path for path in (*self._read, *map(_source, _module_files())) if not path.startswith(_KERNEL)}

    def _is_settled(self, files: set[str]) -> bool:
        """True if every source is in the same state as when it was read."""
        for folder in _import_folders():
            self._note_folder(f"{folder}/*")
        return (
            all(self._folders[key] == digest(key) for key in self._folders.keys() - self._made)
            and all(state(path) == known for path, known in self._read.items() if path in files)
            and not any(self._is_new(path) for path in files if not _installed(path))
        )

    def audited(self, event: str, args: tuple[Any, ...]) -> None:
        """Handle an audit event. An exception here would be raised in the user's code."""
        if self._silent or event.startswith(("object.", "import")):
            return
        match event, args:
            case "open", (int(), _, _):  # a descriptor, which was opened by a path before
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
        """Record that the process looked at a path."""
        if self._silent or sys.is_finalizing():
            return
        found = _absolute(path)
        if not _installed(found) and not found.startswith(_KERNEL):
            self._note_folder(f"stat:{found}")

    def variable(self, name: str) -> None:
        """Record that a variable was read; ALL counts unless an installed package iterates over the environment."""
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
        """True if the file may have changed since it was read."""
        try:
            found = os.stat(path)
        except OSError:
            return False
        return stat.S_ISREG(found.st_mode) and max(found.st_mtime_ns, found.st_ctime_ns) >= self._begin


def _installed(path: str) -> bool:
    return path.startswith(INSTALLED)


def _absolute(path: str | bytes) -> str:
    """Return the absolute path now, since the working directory may change later. Links are not followed."""
    try:
        return os.path.abspath(os.fsdecode(path))
    except OSError:  # there is no working directory
        return os.fsdecode(path)


def _ended() -> int:
    """Return a number that grows with each process that this one has started, by any means, and that has ended."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt


def _has_children() -> bool:
    """True if a process lives that was started by this one."""
    tasks = Path("/proc/self/task").glob("*/children")
    return any(task.read_text(encoding="ascii").strip() for task in tasks)


def _has_unknown_code() -> bool:
    """True if a module comes from the user's loader and names no file."""
    for module in list(sys.modules.values()):
        spec = getattr(module, "__spec__", None)
        if isinstance(spec, importlib.machinery.ModuleSpec) and spec.loader is not None and not spec.has_location:
            kind = spec.loader if isinstance(spec.loader, type) else type(spec.loader)
            if spec.submodule_search_locations is None and not _is_known(kind):
                return True
    return False


def _is_known(loader: type) -> bool:
    """True if the class of a loader belongs to Python or an installed package."""
    home = sys.modules.get(loader.__module__)
    file = getattr(home, "__file__", None)
    return _installed(file) if isinstance(file, str) else loader.__module__.startswith("_frozen_importlib")


def _module_files() -> Iterator[str]:
    for module in list(sys.modules.values()):
        for file in (getattr(module, "__file__", None), getattr(getattr(module, "__spec__", None), "origin", None)):
            if isinstance(file, str) and os.path.isabs(file):
                yield os.path.abspath(file)


def _import_folders() -> Iterator[str]:
    """Folders where a new file could shadow an imported module or provide one that was not found."""
    for path in sys.path:
        yield os.path.abspath(path)
    for module in list(sys.modules.values()):
        spec = getattr(module, "__spec__", None)
        if isinstance(spec, importlib.machinery.ModuleSpec):
            for path in spec.submodule_search_locations or ():
                yield os.path.abspath(path)


def _source(path: str) -> str:
    """Return the source of compiled code: for an unchanged module Python reads only the cached form."""
    if not path.endswith(".pyc"):
        return path
    try:
        source = importlib.util.source_from_cache(path)
    except ValueError:
        return path
    return source if state(source) is not None else path
