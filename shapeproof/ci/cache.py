"""Remembers answers, and finds the one that still holds: same job, same versions, same content of all that was read.

Where anything is in doubt (an entry that cannot be read, a source that is not known for sure) nothing is found.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path

from pydantic import ValidationError

from shapeproof.ci.jobs import ANSWER, Answer, Job, Result
from shapeproof.ci.sources import digest
from shapeproof.files import write_whole

FOLDER = ".shapeproof"
"""Where a cache is, beside the spec."""


def remember(job: Job, answer: Answer) -> None:
    """Keep an answer, if there is a verdict and what it depends on is known."""
    if answer.result.status is None or answer.sources is None:
        return
    path = _path(job)
    ignore = path.parent / ".gitignore"
    with contextlib.suppress(OSError):  # a folder that cannot be written to has no cache
        path.parent.mkdir(exist_ok=True)
        if not ignore.exists():
            write_whole(ignore, "*\n")
        write_whole(path, ANSWER.dump_json(answer, indent=1).decode())


def recall(job: Job, changed: AbstractSet[str], here: Mapping[str, str]) -> Result | None:
    """The verdict of an earlier run that still holds, and depends on none of the `changed` files (real paths).

    `here` are the versions now.
    """
    try:
        answer = ANSWER.validate_json(_path(job).read_bytes())
    except (OSError, ValidationError):
        return None
    if answer.sources is None or answer.versions != here:
        return None
    if any(_touched(os.path.realpath(path), changed) for path in answer.sources):
        return None
    return answer.result if all(digest(path) == known for path, known in answer.sources.items()) else None


def _touched(path: str, changed: AbstractSet[str]) -> bool:
    """Whether the file is one of them, or in one of them (a submodule is listed as a whole)."""
    return path in changed or any(str(folder) in changed for folder in Path(path).parents)


def _path(job: Job) -> Path:
    key = hashlib.sha256(job.model_dump_json().encode()).hexdigest()
    return Path(job.root) / FOLDER / f"{key[:32]}.json"
