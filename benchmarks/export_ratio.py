"""How much longer a verified export takes than torch.export.export: both on the same models, in one run.

    python -m benchmarks.export_ratio [--repeats 3] [--json build/export_ratio.json] [model ...]

The two take turns on freshly built models, and of each the quickest of its repeats counts: what disturbs the machine
only ever adds time. From the second turn on both find sympy's caches warm, so one repeat is not fair. A refusal is
timed like an answer, and shown as what it is. Seconds are processor time. The ratio carries over to other machines,
the seconds do not. A model whose name ends in `.auto` has `Dim.AUTO` for every size, for both.

Models that may take minutes (`LONG`) are exported in processes of their own, with a time limit; an exporter that is
slow tries once. Below the table stand the bars (bars.py). `make bench-publish` writes the record that
docs/explanation/what-exports-cost.md shows.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.bars import Bar, bars
from benchmarks.footprint import peak_bytes, start_of_help
from benchmarks.models import MODELS, Built
from shapeproof.export import export as verified_export

LONG = ("swin", "swin_four_stages")
NOT_ENDED = "not ended"
MEASURED_FOR_MEMORY = "llama"
EXPORTERS: dict[str, Callable[..., Any]] = {"torch": torch.export.export, "shapeproof": verified_export}


@dataclass(frozen=True, slots=True)
class Attempt:
    """One export: how long it took and how it ended (the report's status, "exported", or the exception's name)."""

    seconds: float
    outcome: str


@dataclass(frozen=True, slots=True)
class Row:
    """The quickest attempt of each exporter on one model."""

    model: str
    torch: Attempt
    shapeproof: Attempt

    @property
    def ratio(self) -> float:
        """Time of the verified export by that of torch.export.

        >>> Row("m", Attempt(2.0, "exported"), Attempt(3.0, "proved")).ratio
        1.5
        """
        return self.shapeproof.seconds / self.torch.seconds


def attempt(exporter: Callable[..., Any], build: Callable[[], Built]) -> Attempt:
    """Build the model, then time its export alone."""
    torch.manual_seed(0)
    model, args, kwargs, dynamic_shapes = build()
    start = time.process_time()
    try:
        with torch.no_grad():
            result, outcome = exporter(model, args, kwargs, dynamic_shapes=dynamic_shapes), "exported"
    except Exception as error:  # noqa: BLE001  (a refusal is a result, whatever its type)
        result, outcome = error, type(error).__name__
    seconds = time.process_time() - start
    report = getattr(result, "report", None)
    return Attempt(seconds, outcome if report is None else report.status)


def measure(name: str, repeats: int) -> Row:
    """Let the exporters take turns on one model; the quickest attempt of each counts."""
    attempts: dict[str, list[Attempt]] = {exporter: [] for exporter in EXPORTERS}
    for _ in range(repeats):
        for exporter, export in EXPORTERS.items():
            attempts[exporter].append(attempt(export, MODELS[name]))
    return Row(name, **{exporter: _quickest(tries) for exporter, tries in attempts.items()})


def measure_apart(name: str, limit: int, repeats: int) -> Row:
    """Measure a model, each attempt in a process of its own; one that does not end has taken the limit.

    An exporter whose attempts have taken a tenth of the limit makes no further ones.
    """
    quickest = {}
    for exporter in EXPORTERS:
        tries: list[Attempt] = []
        while len(tries) < repeats and sum(each.seconds for each in tries) < limit / 10:
            tries.append(_attempt_apart(exporter, name, limit))
        quickest[exporter] = _quickest(tries)
    return Row(name, **quickest)


def _quickest(tries: Sequence[Attempt]) -> Attempt:
    return min(tries, key=lambda one: one.seconds)


def _attempt_apart(exporter: str, name: str, limit: int) -> Attempt:
    command = [sys.executable, "-m", "benchmarks.export_ratio", "--attempt", exporter, name]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, timeout=limit, check=True)
    except subprocess.TimeoutExpired:
        return Attempt(limit, NOT_ENDED)
    return Attempt(**json.loads(done.stdout.splitlines()[-1]))


def table(rows: Sequence[Row]) -> Table:
    """The rows, for people."""
    result = Table("model", "torch.export", "shapeproof", title="verified export against torch.export")
    result.add_column("ratio", justify="right")
    for row in rows:
        cells = (f"{one.seconds:7.2f} s  {one.outcome}" for one in (row.torch, row.shapeproof))
        result.add_row(row.model, *cells, f"{row.ratio:.2f}")
    result.caption = f"median ratio {statistics.median(row.ratio for row in rows):.2f}"
    return result


def bars_table(found: Iterable[Bar]) -> Table:
    """The bars, for people."""
    result = Table("bar", title="what exports may cost")
    for name in ("figure", "at most", ""):
        result.add_column(name, justify="right")
    for bar in found:
        said = "met" if bar.is_met else bar.remark or "not met"
        result.add_row(bar.name, f"{bar.figure:.2f}", f"{bar.most:g}", said)
    return result


def _processor() -> str:
    """The name of the processor's model."""
    known = Path("/proc/cpuinfo")
    lines = known.read_text(encoding="utf-8").splitlines() if known.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def record(rows: Sequence[Row], repeats: int) -> dict[str, Any]:
    """The rows, for machines, with what they depend on."""
    packages = ("shapeproof", "torch", "z3-solver", "transformers")
    return {
        "versions": {name: importlib.metadata.version(name) for name in packages},
        "python": platform.python_version(),
        "machine": f"{_processor()} ({platform.machine()}), {os.cpu_count()} cores",
        "repeats": repeats,
        "rows": [asdict(row) | {"ratio": row.ratio} for row in rows],
    }


def main() -> None:
    """Run the models named on the command line, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=list(MODELS), metavar="model", help=", ".join(MODELS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, default=Path("build/export_ratio.json"))
    parser.add_argument("--limit", type=int, default=900, help="seconds until a long model is broken off")
    parser.add_argument("--attempt", choices=EXPORTERS, help="print one attempt of this exporter on one model")
    options = parser.parse_args()
    if unknown := set(options.models) - MODELS.keys():
        parser.error(f"unknown model {', '.join(sorted(unknown))}; there are {', '.join(MODELS)}")
    warnings.simplefilter("ignore")
    # The first export of a process pays for imports and caches; it is not counted.
    measure("convnet", 1)
    if options.attempt:
        print(json.dumps(asdict(attempt(EXPORTERS[options.attempt], MODELS[options.models[0]]))))
        return
    console = Console()
    rows = []
    for name in options.models:
        with console.status(f"exporting {name}"):
            rows.append(
                measure_apart(name, options.limit, options.repeats) if name in LONG else measure(name, options.repeats)
            )
    console.print(table(rows))
    found = record(rows, options.repeats) | {"help": start_of_help()}
    if MEASURED_FOR_MEMORY in options.models:
        found["peak_bytes"] = peak_bytes(MEASURED_FOR_MEMORY)
    console.print(bars_table(bars(found)))
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
