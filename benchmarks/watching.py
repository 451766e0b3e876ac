"""What `watching` costs a call: the time of its hook, on sizes that were seen before, and on new ones every time.

    python -m benchmarks.watching [--calls 2000]

The hook is timed by itself, in processor time, on inputs that are there already; the median of the calls counts. The
share is that of a forward pass of 1 ms. Exit status 1: a share above 5 % on sizes seen before.

On two cores that were busy with other work (Python 3.11, torch 2.13):

    inputs                   sizes seen before   new sizes every time
    one tensor                    4.2 us  0.4 %        16.7 us  1.7 %
    tokens and mask               6.4 us  0.6 %        29.5 us  3.0 %
    a cache of 16 tensors        17.9 us  1.8 %        95.1 us  9.5 %
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from shapeproof.export import watching
from shapeproof.seen import Seen

FORWARD = 1e-3
"""Seconds of the forward pass that the cost is compared with."""
MOST = 0.05
"""The share of it that a call may cost."""


class Nothing(torch.nn.Module):
    """A model that does nothing, so that what a call costs is torch's call and the hook."""

    def forward(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing."""


def _sized(*sizes: int) -> torch.Tensor:
    """A tensor of any size that takes no memory."""
    return torch.empty(sizes, device="meta")


def one(sizes: Callable[[], int]) -> tuple[Any, ...]:
    """One tensor."""
    return (_sized(sizes(), 16),)


def text(sizes: Callable[[], int]) -> tuple[Any, ...]:
    """What a language model takes: tokens, a mask, positions, and a flag."""
    rows, columns = sizes(), sizes()
    return _sized(rows, columns), _sized(rows, columns), _sized(rows, columns), {"cache": None}, True


def cache(sizes: Callable[[], int]) -> tuple[Any, ...]:
    """A token, and the keys and values of eight layers."""
    length = sizes()
    return _sized(1, 1), [(_sized(1, 2, length, 4), _sized(1, 2, length, 4)) for _ in range(8)]


CALLS = {"one tensor": one, "tokens and mask": text, "a cache of 16 tensors": cache}


def seconds(model: Nothing, calls: Sequence[tuple[Any, ...]]) -> float:
    """The median processor time of a call."""
    taken = []
    for args in calls:
        start = time.process_time_ns()
        model(*args)
        taken.append(time.process_time_ns() - start)
    return statistics.median(taken) / 1e9


def measured(build: Callable[[Callable[[], int]], tuple[Any, ...]], number: int, *, new: bool) -> float:
    """The seconds that a hook adds to a call."""
    chance, model = random.Random(0), Nothing()
    few = [chance.randint(1, 512) for _ in range(4)]
    pool = [build((lambda: chance.randint(1, 2**16)) if new else (lambda: chance.choice(few))) for _ in range(number)]
    alone = seconds(model, pool)
    seen = Seen()
    with watching(model, seen):
        seconds(model, pool[: number // 4])  # what is new in the beginning is not the price of a call
        return seconds(model, pool[number // 4 :]) - alone


def main() -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=2000)
    number = parser.parse_args().calls
    table = Table("inputs", "sizes seen before, us", "share of 1 ms", "new sizes, us", "share of 1 ms")
    worst = 0.0
    for name, build in CALLS.items():
        row = [name]
        for new in (False, True):
            cost = measured(build, number, new=new)
            worst = worst if new else max(worst, cost / FORWARD)
            row += [f"{1e6 * cost:.1f}", f"{cost / FORWARD:.1%}"]
        table.add_row(*row)
    Console().print(table)
    return int(worst > MOST)


if __name__ == "__main__":
    raise SystemExit(main())
