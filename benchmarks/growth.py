"""How an export's time grows with the number of its dims, beside torch.export.export in the same process.

    python -m benchmarks.growth [--largest 200] [--json build/growth.json]

Each family is a series of models made here. Seconds are of this machine's processor; ratios and exponents are not.
An exponent of 1.0 since the size before is linear in the size.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch.export import Dim

from benchmarks.scaling import exponents
from shapeproof.export import export

ROWS = 40
"""Sizes of the example repeat after so many dims."""


@dataclass(frozen=True, slots=True)
class Row:
    """One model: the processor time of both exports, and the verdict."""

    family: str
    size: int
    torch: float
    shapeproof: float
    status: str

    @property
    def seconds(self) -> float:
        """Our time, which the exponents are of."""
        return self.shapeproof

    @property
    def ratio(self) -> float:
        """How many times torch's time ours is."""
        return self.shapeproof / self.torch


class Apart(torch.nn.Module):
    """Does the same to each of its inputs, which have nothing to do with each other."""

    def forward(self, *xs: torch.Tensor) -> list[torch.Tensor]:
        """Add 1 to each."""
        return [x + 1 for x in xs]


class Added(torch.nn.Module):
    """Adds inputs in pairs: the first to the first of the second half."""

    def forward(self, *xs: torch.Tensor) -> list[torch.Tensor]:
        """Add each pair."""
        half = len(xs) // 2
        return [x + y for x, y in zip(xs[:half], xs[half:], strict=True)]


def _examples(count: int) -> tuple[torch.Tensor, ...]:
    return tuple(torch.ones(3 + index % ROWS, 2) for index in range(count))


def _dims(count: int) -> tuple[dict[int, Any], ...]:
    return tuple({0: Dim(f"d{index}", min=2, max=4096)} for index in range(count))


def independent(count: int) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...], tuple[dict[int, Any], ...]]:
    """As many inputs, each with a dim of its own."""
    return Apart(), _examples(count), _dims(count)


def pairs(count: int) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...], tuple[dict[int, Any], ...]]:
    """As many pairs of inputs that are added, each pair with a dim of its own."""
    return Added(), _examples(count) * 2, _dims(count) * 2


def inferred_pairs(count: int) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...], tuple[dict[int, Any], ...]]:
    """As many pairs of inputs that are added, every size to be inferred."""
    return Added(), _examples(count) * 2, ({0: Dim.AUTO},) * (2 * count)


FAMILIES: dict[Callable[[int], Any], Sequence[int]] = {
    independent: (25, 50, 100, 200),
    pairs: (25, 50, 100, 150),
    inferred_pairs: (10, 20, 40),
}


def measure(family: Callable[[int], Any], size: int) -> Row:
    """Export a model twice: by torch, and verified.

    >>> measure(pairs, 2).status
    'proved'
    """
    model, args, shapes = family(size)
    declared = {"xs": shapes}
    start = time.process_time()
    torch.export.export(model, args, dynamic_shapes=declared)
    middle = time.process_time()
    program = export(model, args, dynamic_shapes=declared)
    end = time.process_time()
    return Row(family.__name__.replace("_", " "), size, middle - start, end - middle, program.report.status)


def table(rows: Sequence[Row]) -> Table:
    """The rows, for people."""
    result = Table("family", title="how an export's time grows")
    for name in ("size", "torch", "shapeproof", "ratio", "exponent", "status"):
        result.add_column(name, justify="right")
    for row, power in zip(rows, exponents(rows), strict=True):
        grown = "" if power is None else f"{power:.2f}"
        seconds = f"{row.torch:.2f} s", f"{row.shapeproof:.2f} s"
        result.add_row(row.family, str(row.size), *seconds, f"{row.ratio:.2f}", grown, row.status)
    return result


def main() -> None:
    """Measure every family."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest", type=int, default=200, help="at most so many dims or pairs")
    parser.add_argument("--json", type=Path, default=Path("build/growth.json"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    console, rows = Console(), []
    for family, sizes in FAMILIES.items():
        measure(family, 2)
        for size in sizes:
            if size <= options.largest:
                with console.status(f"{family.__name__}: {size}"):
                    rows.append(measure(family, size))
    console.print(table(rows))
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps([asdict(row) | {"ratio": row.ratio} for row in rows], indent=1) + "\n")


if __name__ == "__main__":
    main()
