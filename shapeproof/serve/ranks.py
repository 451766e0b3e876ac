"""Ranks that agree on what was seen before anything is traced, and find out whether all have the same program after.

Each rank writes what it has to the store at which all have met, and reads what the others wrote, so that no collective
can hang: who has not written in the time that was given is named, on every rank that came. The merge is a join, so that
all ranks have the same result without a leader. `export` itself never calls this.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable
from datetime import timedelta
from importlib.metadata import version
from typing import Any

import torch.distributed as dist

import shapeproof
from shapeproof.constraints.errors import UsageError
from shapeproof.export.report.report import Report
from shapeproof.export.shim.process.ranks import PrefixStore, Store, default_store
from shapeproof.seen import Seen

MINUTE = timedelta(seconds=60)


def agree(seen: Seen, group: dist.ProcessGroup | None = None, *, timeout: timedelta = MINUTE) -> Seen:
    """Return the join of what all ranks of a group have seen; it is the same on each rank.

    Args:
        seen: what this rank has seen.
        group: the group; all ranks if it is left out.
        timeout: how long the others are waited for.

    Raises:
        UsageError: a rank did not come in time, or came with something else; the sentence names it.
    """
    texts = _exchanged("agree()", seen.dumps(), group, timeout)
    return Seen.merged(Seen.loads(text, f"what rank {rank} has seen") for rank, text in texts.items())


def together(report: Report, group: dist.ProcessGroup | None = None, *, timeout: timedelta = MINUTE) -> None:
    """Check that all ranks of a group have the same program over the same domain, made by the same releases.

    Args:
        report: that of this rank.
        group: the group; all ranks if it is left out.
        timeout: how long the others are waited for.

    Raises:
        UsageError: a rank has another, or did not come in time; the sentence names it and the first difference.
    """
    mine = _described(report)
    texts = _exchanged("together()", json.dumps(mine), group, timeout)
    for rank, text in texts.items():
        other = json.loads(text)
        for what, value in mine.items():
            if other.get(what) != value:
                raise UsageError(f"rank {rank} has a different {what}: {other.get(what)}, here {value}")


def _described(report: Report) -> dict[str, str]:
    """Return the properties that must be equal on all ranks, the most telling first."""
    programs: Iterable[Any] = getattr(report.program, "programs", (report.program,))
    code = "\n".join("" if program is None else str(program.graph) for program in programs)
    return {
        "release of shapeproof": shapeproof.__version__,
        "release of torch": version("torch"),
        "verdict": report.status,
        "domain": ", ".join(report.domain),
        "inputs": str(dict(report.inputs)),
        "graph": hashlib.sha256(code.encode()).hexdigest()[:16],
    }


def _exchanged(what: str, text: str, group: dist.ProcessGroup | None, timeout: timedelta) -> dict[int, str]:
    """Return the text that each rank of a group has written, by its rank in the world."""
    if not dist.is_initialized():
        raise UsageError(f"{what} needs torch.distributed: call init_process_group first")
    group = group or dist.group.WORLD
    ranks = dist.get_process_group_ranks(group)
    me = dist.get_rank()
    if me not in ranks:
        raise UsageError(f"rank {me} is not in the group that called {what}")
    return exchanged(what, text, default_store(), me, ranks, timeout)


def exchanged(  # noqa: PLR0913, PLR0917 - who writes what, and where
    what: str, text: str, at: Store, me: int, ranks: list[int], timeout: timedelta
) -> dict[int, str]:
    """Return the text that each of these ranks has written to a store.

    Raises:
        UsageError: some have not in time; the sentence names them.
    """
    store = PrefixStore(f"shapeproof/{what}/{','.join(map(str, ranks))}", at)
    turn = store.add(f"turn of {me}", 1)
    keys = {rank: f"{turn} by {rank}" for rank in sorted(ranks)}
    store.set(keys[me], text)
    with contextlib.suppress(RuntimeError):  # the time is up
        store.wait(list(keys.values()), timeout)
    absent = [rank for rank, key in keys.items() if not store.check([key])]
    if absent:
        who = f"rank {absent[0]}" if len(absent) == 1 else f"ranks {', '.join(map(str, absent))}"
        raise UsageError(f"{who} did not come to {what} in {timeout.total_seconds():g} s")
    return {rank: str(store.get(key), "utf-8") for rank, key in keys.items()}
