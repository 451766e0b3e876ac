"""Remembers answers, and finds the one that still holds: same job, same versions, same content of all that was read.

An entry is a digest, a line feed, and JSON that has this digest. Where anything is in doubt (an entry that cannot be
read, that is about another job, or that does not show what it was made from) nothing is found.

What is installed is the same for most models. It stands in a file of its own, named by its digest.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter

from shapeproof.ci.jobs import JOB, Answer, Job, Result, Sources, from_json, to_json
from shapeproof.ci.provenance.identity import contents, digest, digest_in, state
from shapeproof.files import read_bounded, sha256, write_whole

FOLDER = ".shapeproof"
"""Where a cache is, beside the spec."""


@dataclass(frozen=True, slots=True)
class _Entry:
    job: Job
    answer: Answer
    installed: str
    """The digest of what is installed, which names its file."""


_ENTRY = TypeAdapter(_Entry)
_SOURCES = TypeAdapter(Sources)


def remember(job: Job, answer: Answer) -> None:
    """Keep an answer, if there is a verdict and what it depends on is known."""
    installed = contents(answer.installed)
    if answer.result.status is None or not answer.sources or installed is None:
        return
    folder = Path(job.root, FOLDER)
    with contextlib.suppress(OSError):  # a folder that cannot be written to has no cache
        folder.mkdir(exist_ok=True)
        if not (folder / ".gitignore").exists():
            write_whole(folder / ".gitignore", "*\n")
        text = to_json(_SOURCES, installed)
        name = sha256(text)
        if not _is_whole(folder / f"{name}.installed", name):
            write_whole(folder / f"{name}.installed", text)
        body = to_json(_ENTRY, _Entry(job.question, replace(answer, installed={}), name))
        write_whole(_path(job), f"{sha256(body)}\n{body}")


class Recall:
    """Finds what still holds. Each file is read once in its life: it lasts as long as nobody edits."""

    def __init__(self, changed: AbstractSet[str], here: Mapping[str, str]) -> None:
        """`changed` are the real paths of files that are not as in the revision, `here` the versions now."""
        self._changed, self._here = changed, here
        self._installed: dict[Path, bool] = {}

    def result(self, job: Job) -> Result | None:
        """The verdict of an earlier run that still holds, and depends on none of the changed files."""
        entry = _read(job)
        if (
            entry is None
            or entry.job != job.question
            or not entry.answer.sources
            or entry.answer.versions != self._here
        ):
            return None
        sources = entry.answer.sources
        if any(self._is_touched(path) for path in sources) or not _holds(sources):
            return None
        return entry.answer.result if self._is_installed(job, entry.installed) else None

    def _is_touched(self, path: str) -> bool:
        """Whether the file is one of those that changed, or in one of them (a submodule is listed as a whole)."""
        if not path.startswith("/") or path.endswith(("/", "/*")):  # not the content of a file
            return False
        real = os.path.realpath(path)
        return real in self._changed or any(str(folder) in self._changed for folder in Path(real).parents)

    def _is_installed(self, job: Job, name: str) -> bool:
        path = Path(job.root, FOLDER, f"{name}.installed")
        if path not in self._installed:
            self._installed[path] = _is_whole(path, name) and _holds(_parsed_sources(path))
        return self._installed[path]


def recall(job: Job, changed: AbstractSet[str], here: Mapping[str, str]) -> Result | None:
    """The verdict on one job, as Recall finds it."""
    return Recall(changed, here).result(job)


def _holds(sources: Mapping[str, str]) -> bool:
    return all(_now(path) == known for path, known in sources.items())


def _now(key: str) -> str:
    """The digest now."""
    known = state(key) if key.startswith("/") and not key.endswith(("/", "/*")) else None
    return digest(key) if known is None else digest_in(key, known)


def _read(job: Job) -> _Entry | None:
    try:
        known, body = read_bounded(_path(job)).decode().split("\n", 1)
        return from_json(_ENTRY, body) if known == sha256(body) else None
    except (OSError, ValueError, RecursionError):
        return None


def _parsed_sources(path: Path) -> Sources:
    try:
        return from_json(_SOURCES, read_bounded(path))
    except (OSError, ValueError, RecursionError):
        return {}


def _is_whole(path: Path, name: str) -> bool:
    """Whether the file has the digest that is its name."""
    return digest(str(path)) == name


def _path(job: Job) -> Path:
    return Path(job.root) / FOLDER / f"{sha256(to_json(JOB, job.question))[:32]}.json"
