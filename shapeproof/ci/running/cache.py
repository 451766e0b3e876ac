"""Remembers answers; an answer still holds for the same job, versions and content of all files that were read.

An entry is a digest, a line feed, and JSON with this digest. A doubtful entry counts as absent: one that cannot be
read, belongs to another job, or does not list its sources.

Most models share the same installed files. Their digests are in a separate file, named by its own digest.
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
"""The folder of the cache, beside the spec."""


@dataclass(frozen=True, slots=True)
class _Entry:
    job: Job
    answer: Answer
    installed: str
    """The digest of the list of installed files; the list's file is named after it."""


_ENTRY = TypeAdapter(_Entry)
_SOURCES = TypeAdapter(Sources)


def remember(job: Job, answer: Answer) -> None:
    """Keep an answer if it has a verdict and its dependencies are known."""
    installed = contents(answer.installed)
    if answer.result.status is None or not answer.sources or installed is None:
        return
    folder = Path(job.root, FOLDER)
    with contextlib.suppress(OSError):  # without write permission there is no cache
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
    """Finds answers that still hold. Each file is read once per instance: the files must not change meanwhile."""

    def __init__(self, changed: AbstractSet[str], here: Mapping[str, str]) -> None:
        """`changed` are the real paths of files that differ from the revision, `here` the current versions."""
        self._changed, self._here = changed, here
        self._installed: dict[Path, bool] = {}

    def result(self, job: Job) -> Result | None:
        """Return the verdict of an earlier run if it still holds and depends on no changed file."""
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
        """True if the file changed or lies in a changed folder (git lists a submodule as a whole)."""
        if not path.startswith("/") or path.endswith(("/", "/*")):  # no content of a file
            return False
        real = os.path.realpath(path)
        return real in self._changed or any(str(folder) in self._changed for folder in Path(real).parents)

    def _is_installed(self, job: Job, name: str) -> bool:
        path = Path(job.root, FOLDER, f"{name}.installed")
        if path not in self._installed:
            self._installed[path] = _is_whole(path, name) and _holds(_parsed_sources(path))
        return self._installed[path]


def _holds(sources: Mapping[str, str]) -> bool:
    return all(_now(path) == known for path, known in sources.items())


def _now(key: str) -> str:
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
    """True if the file's digest is its name."""
    return digest(str(path)) == name


def _path(job: Job) -> Path:
    return Path(job.root) / FOLDER / f"{sha256(to_json(JOB, job.question))[:32]}.json"
