"""Remembers answers; an answer still holds for the same job while all that was read for it has the same digest.

An entry is a message as frames.py writes it. An entry that cannot be read, or belongs to another job, counts as absent.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from pathlib import Path

from pydantic import TypeAdapter

from shapeproof.ci.jobs import JOB, Answer, Job, Result, to_json
from shapeproof.ci.process.frames import Frames, GarbledError, frame
from shapeproof.files import read_bounded, sha256, write_whole

FOLDER = ".shapeproof"
"""The folder of the cache, beside the spec."""
_ENTRY = TypeAdapter(tuple[Job, Answer])


def remember(job: Job, answer: Answer) -> None:
    """Keep an answer if it has a verdict and its dependencies are known."""
    if answer.result.status is None or not answer.sources:
        return
    with contextlib.suppress(OSError):  # without write permission there is no cache
        Path(job.root, FOLDER).mkdir(exist_ok=True)
        write_whole(Path(job.root, FOLDER, ".gitignore"), "*\n")
        write_whole(_path(job), frame(_ENTRY.dump_python((job.question, answer))).decode())


def recalled(job: Job, changed: AbstractSet[str], digest: Callable[[str], str]) -> Result | None:
    """Return the verdict of an earlier run if it still holds and depends on none of the changed files (real paths)."""
    try:
        (entry,) = Frames().feed(read_bounded(_path(job)))
        asked, answer = _ENTRY.validate_python(entry)
    except (OSError, ValueError, RecursionError, GarbledError):
        return None
    sources = answer.sources or {}
    holds = asked == job.question and all(digest(key) == was for key, was in sources.items())
    as_then = not changed or all(changed.isdisjoint(_places(key)) for key in sources)
    return answer.result if sources and holds and as_then else None


@functools.cache
def _places(key: str) -> tuple[str, ...]:
    """Return the real path of a file and of the folders above it: git lists a submodule as a whole."""
    if not key.startswith("/") or key.endswith("/"):  # no content of a file
        return ()
    real = os.path.realpath(key)
    return (real, *map(str, Path(real).parents))


def _path(job: Job) -> Path:
    return Path(job.root) / FOLDER / f"{sha256(to_json(JOB, job.question))[:32]}.json"
