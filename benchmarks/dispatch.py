"""What dispatch costs a call of a served model, over calling its program itself.

    python -m benchmarks.dispatch [--rounds 60]

Both are called in turns in one run, on the same inputs, in processor time; the least of the rounds are subtracted:
what else the machine does only adds to them. The regions are intervals of one size, and the call lies in the last. Exit
status 1: more than 20 microseconds.

On two cores that were busy with other work (Python 3.11, torch 2.13), microseconds a call:

    regions    the program    served    dispatch
          1             34        50          15
          8             34        47          13
         64             34        48          14
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from shapeproof.constraints.syntax.text import parse_formula
from shapeproof.serve import Program, Served
from shapeproof.serve import compile as served
from shapeproof.serve.programs import Router

MOST = 20.0
"""Microseconds that dispatch may cost."""
REGIONS = (1, 8, 64)
WIDTH = 10
"""Sizes in a region."""
CALLS = 200


class Two(torch.nn.Module):
    """A model of two inputs."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Add them."""
        return x + mask


def in_regions(count: int) -> tuple[Served, Program, tuple[torch.Tensor, ...]]:
    """A served model of so many regions, the program of the last, and inputs that lie there."""
    run = served(Two())
    for rows in (2, 3):
        run(torch.ones(rows, 4), torch.ones(rows, 4))
    (program,) = run.programs
    run._router = Router([_part(program, index) for index in range(count)])  # noqa: SLF001 - as misses would fill it
    rows = WIDTH * count - 1
    return run, run.programs[-1], (torch.ones(rows, 4), torch.ones(rows, 4))


def _part(program: Program, index: int) -> Program:
    """The program as one that serves an interval of sizes."""
    low = WIDTH * index
    texts = (f"s0 >= {low}", f"s0 <= {low + WIDTH - 1}")
    formulas = (*program.flat.formulas, *map(parse_formula, texts))
    return replace(program, number=index + 1, flat=replace(program.flat, formulas=formulas))


def microseconds(call: Callable[..., Any], inputs: Sequence[Any]) -> float:
    """Of a call, on average."""
    start = time.process_time()
    for _ in range(CALLS):
        call(*inputs)
    return (time.process_time() - start) / CALLS * 1e6


def measured(count: int, rounds: int) -> tuple[float, float]:
    """Microseconds of the program itself, and of the served model."""
    run, program, inputs = in_regions(count)
    module = program.module
    pairs = [(microseconds(module, inputs), microseconds(run, inputs)) for _ in range(rounds)]
    return min(each[0] for each in pairs), min(each[1] for each in pairs)


def main() -> int:
    """Measure, and judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=60)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    table = Table("regions", "the program", "served", "dispatch", title="microseconds a call")
    worst = 0.0
    for count in REGIONS:
        alone, with_dispatch = measured(count, rounds)
        worst = max(worst, with_dispatch - alone)
        table.add_row(*(f"{each:.4g}" for each in (count, alone, with_dispatch, with_dispatch - alone)))
    Console().print(table)
    return int(worst > MOST)


if __name__ == "__main__":
    sys.exit(main())
