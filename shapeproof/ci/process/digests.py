"""The digest of each dependency of a verdict: the same digest means the same content.

/path      a file's content; of a folder, only that it is one
/path/     the names in a folder, their kinds and sizes; of a folder of installed code, the names, and its packages
import:    what a folder has of a name that was imported, or sought: `import:nets:/path`
metadata:  the names of the packages whose metadata a folder has: `metadata:/path`
env:NAME   an environment variable
python     the interpreter, its folders, and the variables that it and the loader read
"""

from __future__ import annotations

import functools
import glob
import hashlib
import os
import platform
import site
import stat
import sys
import sysconfig
from collections.abc import Mapping
from importlib.machinery import all_suffixes

from shapeproof.files import sha256

FOLDER, SPECIAL = "folder", "special"
"""Digests of a folder whose names were not listed, and of a device, pipe or socket, which cannot be compared."""
SITE = (*site.getsitepackages(), site.getusersitepackages())
INSTALLED = tuple(os.path.join(each, "") for each in (*SITE, *map(sysconfig.get_path, ("stdlib", "platstdlib"))))
"""The folders of installed packages and of the standard library."""
_OURS = frozenset({"__pycache__", ".shapeproof"})
"""Folders that a check leaves; no verdict depends on them."""


def digest(key: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return the digest of the dependency that the key names."""
    if key == "python":
        told = sorted(each for each in environment.items() if each[0].startswith(("PYTHON", "LD_")))
        return sha256(repr([sys.version, platform.platform(), INSTALLED, told]))
    if key.startswith("env:"):
        return sha256(repr(environment.get(key.removeprefix("env:"))))
    if key.startswith("import:"):
        _, name, folder = key.split(":", 2)
        return _of_module(name, folder)
    if key.startswith("metadata:"):
        named = glob.glob("*.*-info", root_dir=key.removeprefix("metadata:"))
        return sha256(repr(sorted(named))) if named else "absent"
    link = ""
    try:
        link = f"link to {os.readlink(key)}: " if os.path.islink(key) else ""
        return link + _of_path(key)
    except (OSError, ValueError):  # ValueError: a path with a NUL is no path
        return f"{link}absent"


def _of_path(key: str) -> str:
    found = os.stat(key)
    if stat.S_ISREG(found.st_mode):
        return _content(key, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    if not stat.S_ISDIR(found.st_mode):
        return SPECIAL
    if not key.endswith("/"):
        return FOLDER
    if key.startswith(INSTALLED):
        packages = glob.glob("*/__init__.*", root_dir=key)  # an import prefers them to modules of their names
        return sha256(repr(sorted({*os.listdir(key), *packages} - _OURS)))
    with os.scandir(key) as entries:
        return sha256(repr(sorted(map(_of_entry, (each for each in entries if each.name not in _OURS)))))


def _of_entry(entry: os.DirEntry[str]) -> tuple[str, bool, bool, int]:
    """Return what a listing tells of an entry, which may ask no more of the system."""
    own = entry.stat(follow_symlinks=False)
    return entry.name, entry.is_symlink(), entry.is_dir(), 0 if stat.S_ISDIR(own.st_mode) else own.st_size


def _of_module(name: str, folder: str) -> str:
    """Return the digest of what an import of a name may find in a folder: `nets.py`, `nets.so` or a folder."""
    place = os.path.join(folder, name)
    found = [end for end in ("", *all_suffixes()) if os.path.exists(f"{place}{end}")]
    return sha256(repr([*found, *sorted(glob.glob("__init__.*", root_dir=place))])) if found else "absent"


@functools.cache
def _content(path: str, *_: int) -> str:
    """Return the digest of a file, which is read once in each state that the numbers tell apart."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
