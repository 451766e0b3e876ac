"""Kills a process and everything it has started, within the limits of the system.

The process group covers most descendants. A process that has left the group is recognised by its parents, and by an
environment variable.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

TOKEN = "SHAPEPROOF_JOB"  # noqa: S105 - a name, not a secret
"""The variable that marks the processes of a job."""
_PROCESSES = Path("/proc")
_ROUNDS = 100
"""How many times to look again for processes started meanwhile."""


def end_all(leader: int, token: str) -> None:
    """Kill the group of an unreaped process, its descendants and every process with the token; spare this process."""
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
    """Yield the living descendants of a process and the processes that have the token; nothing without /proc."""
    parents = dict(_parents())
    mark = f"{TOKEN}={token}".encode()
    for process in parents:
        if _descends(process, leader, parents) or mark in _environment(process):
            yield process


def _parents() -> Iterator[tuple[int, int]]:
    """Yield each living process with its parent."""
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
