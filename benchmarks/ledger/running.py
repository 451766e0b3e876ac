"""Runs each model in a process of its own: an operator may end its process, and no model may change another's verdict.

The processes are forked from one that has loaded torch, and has exported nothing.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import resource
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from benchmarks.ledger.lines import Line
from benchmarks.ledger.sources import collection
from shapeproof.export.report.report import Report
from shapeproof.plain import plain_way

_SECONDS = 900
"""Processor time that a model may take before its process is ended."""


def lines_of(names: Sequence[tuple[str, str]], cases: Path, *, plainly: bool = False) -> Iterator[Line]:
    """Yield the line of each model, named by collection and name, as it is done; plainly: nothing saves time."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        waiting = [pool.submit(_apart, context, group, name, cases, plainly=plainly) for group, name in names]
        yield from (done.result() for done in as_completed(waiting))


def _apart(
    context: multiprocessing.context.ForkServerContext, group: str, name: str, cases: Path, *, plainly: bool
) -> Line:
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(sending, group, name, cases), kwargs={"plainly": plainly})
    process.start()
    sending.close()
    text = None
    with contextlib.suppress(EOFError):
        text = receiving.recv()
    process.join()
    return Line(f"{group}/{name}", f"ended with {process.exitcode}") if text is None else Line.of_text(text)


def _send(sending: Connection, group: str, name: str, cases: Path, *, plainly: bool) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS))
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    with plain_way() if plainly else contextlib.nullcontext():
        sending.send(str(line_of(f"{group}/{name}", collection(group, cases)[name])))


def line_of(name: str, make: Callable[[], Report]) -> Line:
    """Make a report, and say what it says; of an error its name."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    try:
        report = make()
    except Exception as error:  # noqa: BLE001 - its name is the verdict
        return Line(name, type(error).__name__)
    return Line.of_report(name, report)
