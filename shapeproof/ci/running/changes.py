"""The files that differ from a revision of git."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from shapeproof.constraints.errors import UsageError


def changed_since(revision: str, folder: Path) -> frozenset[str]:
    """Return the real paths of files that differ from the revision: changed, new or deleted.

    Raises:
        UsageError: the folder is in no repository, or there is no such revision.
    """
    top = Path(_git(folder, "rev-parse", "--show-toplevel", failing=f"{folder} is in no git repository").strip("\n"))
    if revision == "HEAD" and not _git(top, "rev-list", "--all", "--max-count=1", failing="").strip():
        return frozenset({os.path.realpath(top)})  # no commits yet: every file is new
    unknown = f"there is no revision {revision!r} in {top}"
    commit = _git(top, "rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}", failing=unknown).strip()
    changed = _git(top, "diff", "--name-only", "--no-renames", "-z", commit, "--", failing=unknown)
    new = _git(top, "ls-files", "--others", "--exclude-standard", "-z", failing=unknown)
    return frozenset(os.path.realpath(top / name) for name in f"{changed}{new}".split("\0") if name)


def _git(folder: Path, *arguments: str, failing: str) -> str:
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        raise UsageError(failing) from None
    return os.fsdecode(done.stdout)
