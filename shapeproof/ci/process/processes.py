"""Kills a process and everything it has started, within the limits of the system.

The process group covers most descendants. A process that has left the group is recognised by its parents, and by an
environment variable.
"""

from __future__ import annotations

import contextlib
import os
import signal

import psutil

TOKEN = "SHAPEPROOF_JOB"  # noqa: S105 - a name, not a secret
"""The variable that marks the processes of a job."""
_ROUNDS = 100
"""How many times to look again for processes started meanwhile."""


def end_all(leader: int, token: str) -> None:
    """Kill the group of an unreaped process, its descendants and every process with the token; spare this process."""
    for _ in range(_ROUNDS):
        found = _begun(leader, token)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if leader != os.getpid():
                os.killpg(leader, signal.SIGKILL)
        for process in found:
            with contextlib.suppress(psutil.Error):
                process.kill()
        if not found:
            return


def _begun(leader: int, token: str) -> list[psutil.Process]:
    """Return the living descendants of a process and the processes that have the token, except for this one."""
    descendants: list[psutil.Process] = []
    with contextlib.suppress(psutil.Error):
        descendants = psutil.Process(leader).children(recursive=True)
    return [
        process
        for process in psutil.process_iter(["status", "environ"])
        if process.info["status"] not in {psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD}
        and process.pid != os.getpid()
        and (process in descendants or (process.info["environ"] or {}).get(TOKEN) == token)
    ]
