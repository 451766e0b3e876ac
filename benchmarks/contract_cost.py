"""What a contract costs a call, beside the call itself: microseconds, and the share of a small program's run.

python -m benchmarks.contract_cost
"""

from __future__ import annotations

import time
import timeit
from collections.abc import Callable
from typing import Any

import torch
from torch.export import Dim

from shapeproof.export import export

REPEATS, CALLS = 7, 5_000


class Attention(torch.nn.Module):
    """Three inputs, two dims."""

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """One head."""
        return torch.softmax(q @ k.transpose(1, 2), dim=-1) @ v


def microseconds(call: Callable[[], Any]) -> float:
    """Of one call, the quickest of several series; time that others use does not count."""
    return min(timeit.repeat(call, timer=time.process_time, number=CALLS, repeat=REPEATS)) / CALLS * 1e6


def main() -> None:
    """Measure and print."""
    torch.set_num_threads(1)
    batch, length = Dim("batch", min=1, max=64), Dim("length", min=1, max=512)
    inputs = tuple(torch.randn(2, 16, 32) for _ in range(3))
    program = export(Attention(), inputs, dynamic_shapes=({0: batch, 1: length},) * 3, constraints=("length % 8 == 0",))
    contract = program.report.contract
    assert contract is not None  # noqa: S101 - it is proved
    feed = dict(zip("qkv", inputs, strict=True))
    nothing = microseconds(lambda: None)
    run = microseconds(lambda: Attention()(*inputs))
    for name, call in {
        "as the model takes them": lambda: contract.check(*inputs),
        "by name": lambda: contract.check(None, feed),
        "in a sequence": lambda: contract.check(list(inputs)),
    }.items():
        cost = microseconds(call) - nothing
        print(f"{name:<24} {cost:6.1f} us a call, {cost / run:5.0%} of eager attention on [2, 16, 32]")


if __name__ == "__main__":
    main()
