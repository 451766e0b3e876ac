"""One switch: `SHAPEPROOF_PLAIN=1` turns off what only saves time, so that a proof rests on less code.

Law: behind each entry of `Saving` stands a plain way, which takes longer and reaches the same verdict; `make plain`
compares the two. What decides something that nothing else decides is no entry.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum

_is_plain = ContextVar("plain", default=os.environ.get("SHAPEPROOF_PLAIN") == "1")


class Saving(Enum):
    """What only saves time: where it is, and what is done instead in the plain way.

    >>> Saving.SETTLING.files, Saving.SETTLING.instead
    (('export/trace/calls/settle.py',), "the other side of an operator's decision is traced")
    """

    SETTLING = "export/trace/calls/settle.py", "the other side of an operator's decision is traced"
    RESULTS = (
        "export/trace/calls/repeats.py export/ops/shapes/shape_functions.py export/ops/shapes/samples.py",
        "each operator is run",
    )
    TRACES = "export/explore/attempts.py", "a part of the domain gets a trace of its own"
    REJECTIONS = "export/explore/ladder.py", "a cell is traced, though eager rejects it or gives another result there"
    LOOKS = "export/explore/ladder.py", "every part of an inferred domain of a large model is traced"
    DATAFLOW = (
        "export/explore/beside_eager/dataflow.py export/explore/beside_eager/pieces.py",
        "a large model runs with data, too",
    )
    LENDING = "export/shim/lending.py", "a copy of a model has memory of its own"
    EXPRESSIONS = "export/shim/numbers/sym_nodes.py", "torch computes each expression anew"
    ANSWERS = "solver/facts.py", "each question is decided anew, by all that the region knows"

    def __init__(self, files: str, instead: str) -> None:
        self.files = tuple(files.split())
        self.instead = instead


def saves_time(_how: Saving) -> bool:
    """True if time is to be saved in this way."""
    return not _is_plain.get()


@contextmanager
def plain_way() -> Iterator[None]:
    """Inside this block, as with `SHAPEPROOF_PLAIN=1`.

    >>> with plain_way():
    ...     saves_time(Saving.SETTLING)
    False
    """
    token = _is_plain.set(True)
    try:
        yield
    finally:
        _is_plain.reset(token)
