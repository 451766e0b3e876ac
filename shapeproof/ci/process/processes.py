"""Ends a process and everything that it has begun, as far as the system can tell what that is.

A process group catches most. What has left the group is known by its parents, and by a variable of its environment.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

from shapeproof.ci.provenance.identity import TOKEN

_PROCESSES = Path("/proc")
_ROUNDS = 100
"""How often to look again for what was begun meanwhile."""


def end_all(leader: int, token: str) -> None:
    """End the group of a process that nobody has waited for, its descendants, and what has the token; not ourselves."""
    for _ in range(_ROUNDS):
        found = set(_begun(leader, token)) - {os.getpid()}
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if leader != os.getpid():
                os.killpg(leader, signal.SIGKILL)
        for process in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        if not found:
            return


def _begun(leader: int, token: str) -> Iterator[int]:
    """The living descendants of a process, and the processes that have the token; none where there is no /proc."""
    parents = dict(_parents())
    mark = f"{TOKEN}={token}".encode()
    for process in parents:
        if _descends(process, leader, parents) or mark in _environment(process):
            yield process


def _parents() -> Iterator[tuple[int, int]]:
    """Each living process and its parent."""
    for folder in _PROCESSES.glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            state, parent = (folder / "stat").read_bytes().rpartition(b") ")[2].split()[:2]
            if state not in {b"Z", b"X"}:
                yield int(folder.name), int(parent)


def _descends(process: int, leader: int, parents: dict[int, int]) -> bool:
    while process in parents:
        process = parents[process]
        if process == leader:
            return True
    return False


def _environment(process: int) -> list[bytes]:
    with contextlib.suppress(OSError):
        return (_PROCESSES / str(process) / "environ").read_bytes().split(b"\0")
    return []
