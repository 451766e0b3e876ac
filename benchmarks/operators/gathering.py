"""Runs batches, each in a process of its own, and gathers what they find: an operator may end its process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.operators.calls import Call
from benchmarks.operators.watching import Disagreement

ROOT = Path(__file__).parents[2]
_PER_BATCH = 40
_PATIENCE = 120
"""Seconds that an operator may take in all, before its process is ended."""
_KEPT = 2
"""Calls that are kept of each way in which an operator disagrees: the smallest."""


@dataclass
class Gathered:
    """What a sweep has found.

    Attributes:
        most: how many samples of each function and dtype were taken.
        samples: how often functions of torch were run.
        calls: how many calls of operators were held against fake and decomposition.
        swept: the functions of the database that were run.
        late: those that did not come to an end in time.
        crashed: what had just been begun when a process ended by itself.
        found: the smallest calls for each operator, source and kind.
        counts: how many calls disagreed, in the same order.
        seen: one call of each operator.
        symbolic: what `symbolic.py` says of these.
        tried: what `trying.py` says of disagreements, in the order of `found`.
    """

    most: int = 0
    samples: int = 0
    calls: int = 0
    swept: int = 0
    late: list[str] = field(default_factory=list)
    crashed: list[str] = field(default_factory=list)
    found: dict[tuple[str, str, str], list[Disagreement]] = field(default_factory=dict)
    counts: dict[tuple[str, str, str], int] = field(default_factory=dict)
    seen: dict[str, Call] = field(default_factory=dict)
    symbolic: list[dict[str, Any]] = field(default_factory=list)
    tried: list[dict[str, Any]] = field(default_factory=list)

    def take(self, line: dict[str, Any]) -> None:
        """Take a line that a batch has written."""
        kind = line.pop("line")
        if kind == "found":
            line.pop("name", None)
            self._disagreement(Disagreement.of(line))
        elif kind == "seen":
            call = Call(**line["call"])
            self.seen.setdefault(call.op, call)
        elif kind == "symbolic":
            self.symbolic.append(line)
        elif kind == "tried":
            self.tried.append(line)
        elif kind == "late":
            self.late.append(line["name"])
        elif kind == "done":
            self.samples, self.calls = self.samples + line["samples"], self.calls + line.get("calls", 0)
            self.swept += 1

    def _disagreement(self, each: Disagreement) -> None:
        key = each.call.op, each.source, each.kind
        self.counts[key] = self.counts.get(key, 0) + 1
        kept = self.found.setdefault(key, [])
        if all(other.call != each.call for other in kept):
            kept.append(each)
            kept.sort(key=lambda one: (one.call.elements, str(one.call)))
            del kept[_KEPT:]


def gather(module: str, names: Sequence[str], most: int, into: Gathered, progress: Callable[[str], None]) -> None:
    """Run a module over names, some at a time; what ends its process is noted, and left out."""
    left = list(names)
    while left:
        batch = left[:_PER_BATCH]
        progress(f"{module}: {len(names) - len(left)} of {len(names)}, {len(into.found)} ways to disagree")
        over = _run(module, batch, most, into)
        left = left[batch.index(over) + 1 :] if over is not None else left[len(batch) :]


def _run(module: str, batch: Sequence[str], most: int, into: Gathered) -> str | None:
    """Run a batch; the name that ended its process, if one did."""
    with tempfile.NamedTemporaryFile() as mark, tempfile.TemporaryFile("w+") as out:
        surroundings = os.environ | {"PYTHONPATH": str(ROOT), "SWEEP_MARK": mark.name, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", f"benchmarks.operators.{module}", str(most), *batch]
        try:
            code: int | str = subprocess.run(
                command,
                stdout=out,
                stderr=subprocess.DEVNULL,
                env=surroundings,
                check=False,
                timeout=_PATIENCE * len(batch),
            ).returncode
        except subprocess.TimeoutExpired:
            code = "no answer"
        out.seek(0)
        begun = None
        for line in _lines(out.read()):
            if line["line"] == "begin":
                begun = line["name"]
            else:
                into.take(line)
        if code == 0 or begun is None:
            return None
        into.crashed.append(f"({code}) {Path(mark.name).read_text(errors='replace').strip(chr(0)).strip()}")
        return str(begun)


def _lines(text: str) -> Iterator[dict[str, Any]]:
    """The lines that were written whole."""
    for line in text.splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue
