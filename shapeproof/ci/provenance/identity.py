"""The digest of each dependency of a verdict: the same digest means the same content.

/path        the content of a file
/path/       the names in a folder
/path/*      the names in a folder that can be imported
stat:/path   whether the path exists: as a folder, or as a file with its length
env:NAME     the value of an environment variable; env:* is all of them
"""

from __future__ import annotations

import functools
import hashlib
import importlib.machinery
import importlib.metadata
import os
import platform
import site
import stat
import sys
import sysconfig
from collections.abc import Iterator, Mapping

from shapeproof.files import sha256

ABSENT = "absent"
"""The digest of a dependency that was looked for and not found."""

ALL_VARIABLES = "env:*"
TOKEN = "SHAPEPROOF_JOB"  # noqa: S105 - a name, not a secret
"""The variable that marks the processes of a job."""

_OURS = frozenset({"__pycache__", ".shapeproof"})
"""Files that a check leaves in folders; no verdict depends on them."""
_CHANGES = frozenset({TOKEN, "_", "SHLVL", "OLDPWD"})
"""Variables that a shell sets again for each command."""
_SUFFIXES = tuple(importlib.machinery.all_suffixes())
_METADATA = (".dist-info", ".egg-info", ".egg", ".pth")

_stat, _lstat = os.stat, os.lstat  # the originals, before `watch` replaces them


def _site_packages() -> list[str]:
    return [*site.getsitepackages(), site.getusersitepackages()]


INSTALLED = tuple(
    os.path.join(folder, "")
    for folder in (*_site_packages(), sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
)
"""The folders of installed packages and of the standard library."""


def digest(key: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return the digest of the dependency that the key names."""
    try:
        if key.startswith("env:"):
            return _of_variables(key, environment)
        if key.startswith("stat:"):
            return _look(key.removeprefix("stat:"))
        if key.endswith("/*"):
            return sha256("\n".join(sorted(_importable(key[:-2]))).encode(errors="surrogateescape"))
        if key.endswith("/"):
            return sha256("\n".join(sorted(_listed(key))).encode(errors="surrogateescape"))
        return _content(key)
    except (OSError, ValueError):  # ValueError: a path with a NUL is no path
        return ABSENT


def state(path: str) -> str | None:
    """Return a text that changes when a file is written to or replaced; None if there is no such file."""
    try:
        found = _stat(path)
    except (OSError, ValueError):
        return None
    kind = "file" if stat.S_ISREG(found.st_mode) else "folder" if stat.S_ISDIR(found.st_mode) else "special"
    times = (found.st_mtime_ns, found.st_ctime_ns) if kind == "file" else ()
    return ":".join(map(str, (kind, found.st_dev, found.st_ino, found.st_size if kind == "file" else 0, *times)))


def contents(states: Mapping[str, str]) -> dict[str, str] | None:
    """Return the digest of each file if all are still in their state, else None. Each file is read once per process.

    A key of a folder stands for itself: its value is already a digest.
    """
    found = {}
    for path, known in states.items():
        if path.endswith(("/", "/*")):
            found[path] = known
        elif state(path) != known:
            return None
        else:
            found[path] = digest_in(path, known)
    return found


@functools.cache
def digest_in(path: str, known: str) -> str:  # noqa: ARG001 - in another state, another digest
    """Return the digest of a file in a state; each is read once per process."""
    return digest(path)


def versions() -> dict[str, str]:
    """The installed packages, the interpreter, and the environment variables that affect the interpreter and loader."""
    installed = importlib.metadata.distributions(path=_site_packages())
    told = {name: value for name, value in os.environ.items() if name.startswith(("PYTHON", "LD_"))}
    return {
        "python": sys.version,
        "platform": platform.platform(),
        "prefix": sys.prefix,
        "PYTHONPATH": "",
        "packages": sha256("\n".join(sorted(f"{found.name}=={found.version}" for found in installed)).encode()),
    } | told


def _of_variables(key: str, environment: Mapping[str, str]) -> str:
    if key == ALL_VARIABLES:
        text = "\0".join(f"{name}={value}" for name, value in sorted(environment.items()) if name not in _CHANGES)
    else:
        value = environment.get(key.removeprefix("env:"))
        if value is None:
            return ABSENT
        text = value
    return sha256(text.encode(errors="surrogateescape"))


def _look(path: str) -> str:
    """Return what `os.stat` and the like tell about a path, without the fields that change by themselves."""
    link = stat.S_ISLNK(_lstat(path).st_mode)
    found = _stat(path)
    kind = f"file of {found.st_size}" if stat.S_ISREG(found.st_mode) else str(stat.S_IFMT(found.st_mode))
    return f"link to {kind}" if link else kind


def _importable(folder: str) -> Iterator[str]:
    """Yield the names in a folder that an import could find; a regular package also lists its `__init__` files."""
    if not os.path.isdir(folder):
        yield _content(folder)  # perhaps an archive
        return
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name in _OURS:
                continue
            if entry.name.endswith((*_SUFFIXES, *_METADATA)):
                yield entry.name
            elif entry.name.isidentifier() and entry.is_dir():
                starts = [f"__init__{suffix}" for suffix in _SUFFIXES]
                yield "/".join([entry.name, *(start for start in starts if state(os.path.join(entry.path, start)))])


def _listed(folder: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name not in _OURS:
                yield entry.name + ("/" if entry.is_dir() else "")


def _content(path: str) -> str:
    """Return the digest of a regular file, else ABSENT: a special file has no content to compare. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # opening a FIFO would wait for a writer
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ABSENT
        return hashlib.file_digest(file, "sha256").hexdigest()
