"""Runs batches, each in a process of its own, and gathers what they find: an operator may end its process.

A journal keeps the lines of each batch that came to its end, so that a sweep which is broken off can be resumed.
"""

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
        kind = line["line"]
        if kind == "found":
            self._disagreement(Disagreement.of({name: line[name] for name in Disagreement.__dataclass_fields__}))
        elif kind == "seen":
            call = Call(**line["call"])
            self.seen.setdefault(call.op, call)
        elif kind == "symbolic":
            self.symbolic.append(line)
        elif kind == "tried":
            self.tried.append(line)
        elif kind == "crashed":
            self.crashed.append(line["at"])
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


@dataclass
class Journal:
    """The lines that the batches of a sweep have written, each batch closed by the names that it is done with.

    Attributes:
        path: the file, or None to keep nothing.
        done: for each module the names that need not be run again.
    """

    path: Path | None = None
    done: dict[str, set[str]] = field(default_factory=dict)

    def replay(self, into: Gathered) -> None:
        """Take the batches that an earlier run has closed, and drop the lines of one that was broken off."""
        if self.path is None or not self.path.exists():
            return
        batch, kept = [], 0
        lines = self.path.read_text().splitlines(keepends=True)
        for index, line in enumerate(lines):
            batch.append(line)
            closing = json.loads(line) if line.startswith('{"line": "closed"') else None
            if closing is not None:
                for each in _lines("".join(batch[:-1])):
                    into.take(each)
                self.done.setdefault(closing["module"], set()).update(closing["names"])
                batch, kept = [], index + 1
        self.path.write_text("".join(lines[:kept]))

    def close(self, module: str, names: Sequence[str], lines: Sequence[dict[str, Any]]) -> None:
        """Add the lines of a batch."""
        if self.path is not None:
            closing = {"line": "closed", "module": module, "names": list(names)}
            with self.path.open("a") as file:
                file.writelines(json.dumps(each) + "\n" for each in (*lines, closing))


def gather(
    module: str, names: Sequence[str], into: Gathered, progress: Callable[[str], None], journal: Journal
) -> None:
    """Run a module over names, some at a time; what ends its process is noted, and left out."""
    left = [name for name in names if name not in journal.done.get(module, ())]
    while left:
        batch = left[:_PER_BATCH]
        progress(f"{module}: {len(names) - len(left)} of {len(names)}, {len(into.found)} ways to disagree")
        lines, over = _run(module, batch, into.most)
        done = batch[: batch.index(over) + 1] if over is not None else batch
        journal.close(module, done, lines)
        for line in lines:
            into.take(line)
        left = left[len(done) :]


def _run(module: str, batch: Sequence[str], most: int) -> tuple[list[dict[str, Any]], str | None]:
    """Run a batch; its lines, and the name that ended its process, if one did."""
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
        lines = list(_lines(out.read()))
        begun = [line["name"] for line in lines if line["line"] == "begin"]
        told = [line for line in lines if line["line"] != "begin"]
        if code == 0 or not begun:
            return told, None
        at = Path(mark.name).read_text(errors="replace").strip("\0").strip()
        return [*told, {"line": "crashed", "at": f"({code}) {at}"}], str(begun[-1])


def _lines(text: str) -> Iterator[dict[str, Any]]:
    """The lines that were written whole."""
    for line in text.splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue
