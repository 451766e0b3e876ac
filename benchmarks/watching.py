"""What `watching` costs a call: the time of its hook, on sizes seen before, on new ones, and on ever larger ones.

    python -m benchmarks.watching [--calls 2000] [--stream 1000000]

A model that is watched and one that is not take turns at every call, in processor time, on inputs that are there
already; the median of the differences counts. The share is that of a forward pass of 1 ms. Exit status 1: a share above
5 % on sizes seen before. Ever larger sizes (a cache that grows by one) are each a greatest one, which
is kept; a share of them is no promise.

With `--stream`, so many calls are recorded: for each tenth of them the processor time of a call, what is kept, and the
most memory that the process had. Exit status 1 too: the last tenth takes longer than the first, or more memory.

On two cores that were busy with other work (Python 3.11, torch 2.13):

    inputs                  sizes seen before     new sizes    ever larger
    one tensor                  3.4 us  0.3 %    10 us  1.0 %      63 us
    tokens and mask             5.7 us  0.6 %    21 us  2.1 %      92 us
    a cache of 16 tensors      17   us  1.7 %    59 us  5.9 %     346 us
    16 tensors, unlike         49   us  4.9 %    57 us  5.7 %     340 us

A stream of 1,000,000 calls with new sizes (a tensor and an int): 43 us a call in the first tenth, 37 in the last; a
profile of 5 KB after each tenth; 311,908 KB resident at most after the first, and after the last.
"""

from __future__ import annotations

import argparse
import itertools
import random
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
MORE_TIME = 1.25
"""How much longer than one of the first tenth a call of the last may take: it is not to grow with their number."""
MORE_KILOBYTES = 1024
"""How much more memory the process may have after the last tenth than after the first."""
BLOCK = 100
"""Calls of which the median is taken."""
TRAFFIC = ("before", "new", "larger")
"""Sizes seen before, new ones, ever larger ones."""


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


def apart(sizes: Callable[[], int]) -> tuple[Any, ...]:
    """Sixteen tensors, none of which has a size of another."""
    return tuple(_sized(1, 2, sizes(), 4) for _ in range(16))


CALLS = {"one tensor": one, "tokens and mask": text, "a cache of 16 tensors": cache, "16 tensors, unlike": apart}


def seconds(watched: Nothing, alone: Nothing, calls: Sequence[tuple[Any, ...]]) -> float:
    """The median of what a call of the watched model takes beyond the same call of the other."""
    more = []
    for args in calls:
        start = time.process_time_ns()
        alone(*args)
        middle = time.process_time_ns()
        watched(*args)
        more.append(time.process_time_ns() - middle - (middle - start))
    return statistics.median(more) / 1e9


def sizes_of(traffic: str) -> Callable[[], int]:
    """Where the sizes of calls come from."""
    chance = random.Random(0)
    few = [chance.randint(1, 512) for _ in range(4)]
    larger = itertools.count(1)
    return {"before": lambda: chance.choice(few), "new": lambda: chance.randint(1, 2**16), "larger": larger.__next__}[
        traffic
    ]


def measured(build: Callable[[Callable[[], int]], tuple[Any, ...]], number: int, traffic: str) -> float:
    """The seconds that a hook adds to a call."""
    sizes = sizes_of(traffic)
    pool = [build(sizes) for _ in range(number)]
    watched, alone = Nothing(), Nothing()
    with watching(watched, Seen()):
        seconds(watched, alone, pool[: number // 4])  # what is new in the beginning is not the price of a call
        return min(seconds(watched, alone, pool[start : start + BLOCK]) for start in range(number // 4, number, BLOCK))


@dataclass(frozen=True)
class Tenth:
    """A tenth of a stream: microseconds a call, what a file of the profile takes, and the most memory until its end."""

    calls: int
    each: float
    kept: int
    resident: int


def stream(number: int) -> list[Tenth]:
    """A stream of calls with new sizes, by tenths."""
    chance, model, seen = random.Random(0), Nothing(), Seen()
    tenths, of_each = [], number // 10
    with watching(model, seen):
        for tenth in range(10):
            taken = 0
            for _ in range(of_each):
                args = _sized(8 * chance.randint(1, 10**6), chance.randint(1, 500), 16), chance.randint(0, 10**9)
                start = time.process_time_ns()
                model(*args)
                taken += time.process_time_ns() - start
            resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            tenths.append(Tenth((tenth + 1) * of_each, taken / of_each / 1e3, len(seen.dumps()), resident))
    return tenths


def is_flat(tenths: Sequence[Tenth]) -> bool:
    """Whether the last tenth took neither longer than the first nor more memory."""
    first, last = tenths[0], tenths[-1]
    return last.each <= MORE_TIME * first.each and last.resident <= first.resident + MORE_KILOBYTES


def streamed(tenths: Sequence[Tenth]) -> Table:
    """The tenths as a table."""
    table = Table("calls", "us a call", "bytes kept", "most resident, KB")
    for each in tenths:
        table.add_row(f"{each.calls:,}", f"{each.each:.1f}", f"{each.kept:,}", f"{each.resident:,}")
    return table


def main() -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--stream", type=int, default=0)
    given = parser.parse_args()
    table = Table("inputs", *(f"{traffic}, us (share of 1 ms)" for traffic in TRAFFIC))
    worst = 0.0
    for name, build in CALLS.items():
        costs = {traffic: measured(build, given.calls, traffic) for traffic in TRAFFIC}
        worst = max(worst, costs["before"] / FORWARD)
        table.add_row(name, *(f"{1e6 * cost:.1f} ({cost / FORWARD:.1%})" for cost in costs.values()))
    Console().print(table)
    flat = True
    if given.stream:
        tenths = stream(given.stream)
        Console().print(streamed(tenths))
        flat = is_flat(tenths)
    return int(worst > MOST or not flat)


if __name__ == "__main__":
    raise SystemExit(main())
