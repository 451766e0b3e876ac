"""Records what a process has read: the code, data and variables that its verdict depends on.

Law: if everything named here has the same digest later, the verdict is the same. When in doubt, the result is None, and
the model is checked again. One gap: files that an extension module reads outside the working directory.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import glob
import importlib.util
import os
import re
import resource
import struct
import sys
import threading
from collections.abc import Callable, ItemsView, Iterator
from importlib.machinery import FileFinder, ModuleSpec
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, ClassVar

from shapeproof.ci.process.digests import FOLDER, INSTALLED, SITE, SPECIAL, digest
from shapeproof.ci.process.processes import TOKEN

_OUTSIDE = re.compile(
    r"os\.(exec|fork|forkpty|getxattr|listxattr|posix_spawn|spawn|system)|pty\.spawn|sqlite3\.connect|subprocess\.Popen"
    r"|urllib\.Request|socket\.(connect|sendto|sendmsg|getaddrinfo|gethostby.*)"
)
"""After one of these events, the process may know anything."""
_NOT_READ = os.O_WRONLY | os.O_TRUNC | os.O_EXCL
"""Opened with one of these flags, a file tells the process nothing."""
_ON_BEHALF = re.compile(rf"<frozen|{re.escape(__file__)}|{re.escape(os.path.dirname(os.__file__))}/(?!\w+-packages/)")
"""Files whose code asks on behalf of its caller: this one, and the standard library."""
_OPEN, _OVERFLOW, _FOLDER, _HEAD = 0x20, 0x4000, 0x40000000, struct.Struct("iIII")
"""Of inotify: what to report, the marks of lost reports and of a folder, and the head of a report."""
_LIBRARIES = (*INSTALLED, f"{Path(__file__).absolute().parents[2]}/")


class Recorder:
    """Records what this process reads from now on, and the modules that it has imported before.

    `begin` is the start time of the process, in nanoseconds since the epoch. A recorder cannot be removed.
    """

    def __init__(self, begin: int) -> None:
        self._begin = begin
        self._environment = dict(os.environ)
        self._read: dict[str, str] = {}
        """The digest of each dependency at the time when it was first read."""
        self._doubtful = False
        self._own = threading.local()  # says whether a thread is reading for the recorder itself
        self._opened = _Opened(os.getcwd())
        links = (path for folder in SITE for path in glob.glob(f"{glob.escape(folder)}/*.pth"))
        for key in ("python", *links, *_imported()):
            self._note(key)
        self._begun = _begun()
        for original in (os.stat, os.lstat, os.access, os.readlink):
            _replace(original, self._note_path)
        _hear_imports(self._note_import)
        _Variables.hear.insert(0, self._note_variable)
        os.environ.__class__ = os.environb.__class__ = _Variables
        sys.addaudithook(self._audited)

    def sources(self) -> dict[str, str] | None:
        """Return the digest of each dependency; None if they are not known for sure."""
        self._own.reads = True
        try:
            late = {*_imported(), *self._opened.paths()} - self._read.keys()
            changing = any(os.stat(key).st_ctime_ns >= self._begin for key in late if os.path.isfile(key))
        except OSError:
            return None
        read = self._read | {key: digest(key) for key in late}
        changing |= any(digest(key, self._environment) != known for key, known in read.items())
        return None if changing or self._doubtful or _begun() != self._begun else read

    def _audited(self, event: str, args: tuple[Any, ...]) -> None:
        match event, args:
            case "open", (int(), _, _):  # a descriptor, which was opened by a path before
                pass
            case "open", (str() | bytes() as path, mode, int() as flags) if mode is not None or os.path.isabs(path):
                if path != "/dev/null" and not flags & _NOT_READ:
                    found = self._note_path(path)
                    self._doubt(found.endswith((SPECIAL, FOLDER)))  # a folder may be the base of relative paths
            case "os.listdir" | "os.scandir", (str() | bytes() | None as path,):
                if not _is_import(sys._getframe(1)):  # noqa: SLF001 - each name that it seeks there is noted by itself
                    self._note_path(path or os.getcwd(), "/")
            case (("open" | "os.listdir" | "os.scandir"), _):  # by a descriptor, or relative to one as os.open may be
                self._doubt()
            case "import", (_, str() as path, *_):  # an extension module
                self._note_path(path)
            case "ctypes.dlopen", (name,):
                self._doubt(not _is_installed_asking())
                if isinstance(name, str | bytes) and os.path.isabs(name):
                    self._note_path(name)
            case _:
                self._doubt(_OUTSIDE.fullmatch(event) is not None)

    def _doubt(self, is_doubtful: bool = True) -> None:  # noqa: FBT001, FBT002 - it is the whole question
        self._doubtful = self._doubtful or is_doubtful

    def _note_path(self, path: str | bytes, end: str = "") -> str:
        name = os.fsdecode(path)  # as it is meant now, with its `..`: before one may stand a link
        place = name if os.path.isabs(name) else os.path.join(os.getcwd(), name)
        if not os.path.normpath(place).startswith(("/proc/", "/sys/")):
            return self._note(_source(place) + end)
        self._doubt(not _is_installed_asking())
        return ""

    def _note_import(self, name: str, folder: str) -> None:
        self._note(_sought(name, os.path.abspath(folder)))

    def _note_variable(self, name: str | None) -> None:
        if name is None:
            self._doubt(not _is_installed_asking())
        elif name != TOKEN:  # differs in each process
            self._note(f"env:{name}")

    def _note(self, key: str) -> str:
        """Return the digest of a dependency at the time when it was first read."""
        if key not in self._read and not getattr(self._own, "reads", False):
            self._own.reads = True
            try:
                self._read.setdefault(key, digest(key, self._environment))
            finally:  # the user's code may have come to the limit of recursion
                self._own.reads = False
        return self._read.get(key, "")


class _Opened:
    """Names the data files below a folder that any code opens from now on: an extension module raises no audit event.

    Linux reports opens by all processes: perhaps too many files, not too few. Elsewhere none are named. Hidden folders
    and environments are left out.
    """

    def __init__(self, root: str) -> None:
        self._folders: dict[int, str] = {}
        if sys.platform == "linux":
            libc = ctypes.CDLL(None)
            self._queue = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
            for folder in _folders(root):
                self._folders[libc.inotify_add_watch(self._queue, os.fsencode(folder), _OPEN)] = folder

    def paths(self) -> Iterator[str]:
        """Yield the paths. Raises an OSError if some may be missing."""
        try:
            data = memoryview(os.read(self._queue, 2**24) if self._folders else b"")  # longer than the queue
        except BlockingIOError:  # there is no report
            return
        while data:
            number, mask, _, length = _HEAD.unpack_from(data)
            name = os.fsdecode(bytes(data[_HEAD.size :][:length]).rstrip(b"\0"))
            data = data[_HEAD.size + length :]
            if mask & _OVERFLOW or -1 in self._folders:  # a folder could not be watched
                raise OSError
            if not mask & _FOLDER and not name.endswith((".py", ".pyc")):  # Python reports these itself
                yield os.path.join(self._folders[number], name)


def _folders(root: str) -> Iterator[str]:
    for folder, inner, files in os.walk(root):
        inner[:] = [name for name in inner if not name.startswith((".", "__pycache__", "node_modules"))]
        if "pyvenv.cfg" in files:
            inner.clear()
        else:
            yield folder


class _Variables(os._Environ):  # type: ignore[type-arg]  # noqa: SLF001 - `os.environ` is one, and must stay one
    """`os.environ`, with the name of each variable that is read reported, or None when all are listed."""

    hear: ClassVar[list[Callable[[str | None], None]]] = []

    def __getitem__(self, key: Any) -> Any:
        self.hear[0](os.fsdecode(key))
        return super().__getitem__(key)

    def __iter__(self) -> Iterator[Any]:
        self.hear[0](None)
        return super().__iter__()

    def copy(self) -> dict[Any, Any]:
        self.hear[0](None)
        return {self.decodekey(key): self.decodevalue(value) for key, value in self._data.items()}  # type: ignore[attr-defined]

    def items(self) -> ItemsView[Any, Any]:
        return self.copy().items()


def _replace(original: Callable[..., Any], hear: Callable[[str | bytes], object]) -> None:
    """Replace a function of `os` that raises no audit event by one that reports the path and gives the same answer."""

    @functools.wraps(original)
    def look(path: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(path, int):
            hear(os.fspath(path))
        return original(path, *args, **kwargs)

    setattr(os, original.__name__, look)
    for known in (os.supports_fd, os.supports_dir_fd, os.supports_follow_symlinks, os.supports_effective_ids):
        known.update({look} if original in known else ())


def _source(path: str) -> str:
    """Return the source of compiled code: for an unchanged module Python reads only the cached form."""
    with contextlib.suppress(ValueError):
        return importlib.util.source_from_cache(path) if path.endswith(".pyc") else path
    return path


def _begun() -> tuple[bool, int]:
    """Return what changes when this process starts another one by any means: living children, and ended ones."""
    with contextlib.suppress(ChildProcessError):
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return True, 0
    return False, resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt


def _hear_imports(hear: Callable[[str, str], object]) -> None:
    """Report each name that is sought in a folder, by an import or by find_spec."""
    original = FileFinder.find_spec

    @functools.wraps(original)
    def find_spec(self: FileFinder, fullname: str, target: ModuleType | None = None) -> ModuleSpec | None:
        hear(fullname.rpartition(".")[2], self.path)
        return original(self, fullname, target)

    FileFinder.find_spec = find_spec  # type: ignore[method-assign, assignment]


def _is_import(frame: FrameType) -> bool:
    """True if Python's own import lists a folder."""
    return frame.f_code.co_filename == "<frozen importlib._bootstrap_external>"


def _sought(name: str, folder: str) -> str:
    """Return the key of a name that is sought in a folder: of installed packages, the whole folder is the key."""
    return f"{folder}/" if _is_installed(folder) else f"import:{name}:{folder}"


def _is_installed(folder: str) -> bool:
    return f"{folder}/".startswith(INSTALLED)


def _imported() -> Iterator[str]:
    """Yield the files of modules, and where a new file could provide or shadow one of them."""
    for module in list(sys.modules.values()):
        spec = getattr(module, "__spec__", None)
        for file in (getattr(module, "__file__", None), getattr(spec, "origin", None)):
            if isinstance(file, str) and os.path.isabs(file):
                yield _source(os.path.abspath(file))
    for name in list(sys.modules):
        package, _, part = name.rpartition(".")
        spec = getattr(sys.modules.get(package), "__spec__", None)
        for folder in map(os.path.abspath, getattr(spec, "submodule_search_locations", None) or sys.path):
            yield from (folder, _sought(part, folder))
    yield from (f"metadata:{folder}" for folder in map(os.path.abspath, sys.path) if not _is_installed(folder))


def _is_installed_asking() -> bool:
    """True if an installed package, or this one, asks now; false if the user's code does."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - inspect is too slow
    while frame is not None and _ON_BEHALF.match(frame.f_code.co_filename):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.startswith(_LIBRARIES)
