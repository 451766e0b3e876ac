"""A test in a process of its own: it registers operators and containers, and may not end."""

from __future__ import annotations

import multiprocessing
import os
import unittest
import warnings
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from upstream.suite import Found, run


def apart(name: str, cls: type[unittest.TestCase], exporter: str, limit: float) -> Found:
    """Run one test in a process that is forked for it, and ended at the limit."""
    torch.set_num_threads(1)  # threads are not forked
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(theirs, name, cls, exporter), daemon=True)
    process.start()
    theirs.close()
    try:
        return Found(*ours.recv()) if ours.poll(limit) else Found("fails", "Timeout", f"not ended after {limit:g} s")
    except EOFError:
        return Found("fails", "EOFError", "the process ended without a word")
    finally:
        process.kill()
        process.join()


def _send(to: Connection, name: str, cls: type[unittest.TestCase], exporter: str) -> None:
    warnings.simplefilter("ignore")
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
        found = run(name, cls, exporter)
    to.send((found.outcome, found.error, found.said))
