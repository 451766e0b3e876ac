"""What a contract costs a call, beside the call itself: microseconds, and the share of a small program's run.

    python -m benchmarks.contract_cost

Exit status 1: `shapeproof.guard` takes more than 5 microseconds for ten inputs.

On two cores that were busy with other work (Python 3.11, torch 2.13), microseconds a call for ten inputs:

    a session, of arrays, of one shape          2.8
    a function, of tensors, of one shape        4.3
    a session, of arrays, of ten shapes         3.0
    a function, of tensors, of ten shapes       4.7
"""

from __future__ import annotations

import sys
import time
import timeit
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.export import Dim

import shapeproof
from shapeproof.contract import Contract
from shapeproof.export import export

REPEATS, CALLS = 7, 5_000
MOST = 5.0
"""Microseconds that a guard may take for ten inputs."""


class Attention(torch.nn.Module):
    """Three inputs, two dims."""

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """One head."""
        return torch.softmax(q @ k.transpose(1, 2), dim=-1) @ v


class Joined(torch.nn.Module):
    """Any number of inputs, whose last sizes may differ."""

    def forward(self, *parts: torch.Tensor) -> torch.Tensor:
        """Concatenate them."""
        return torch.cat(parts, -1)


class Session:
    """Takes inputs as a session of ONNX Runtime does, and does nothing."""

    def run(self, output_names: None, input_feed: dict[str, Any]) -> None:
        """Return at once."""


def nothing(*_: Any) -> None:
    """Return at once."""


def microseconds(call: Callable[[], Any]) -> float:
    """Of one call, the quickest of several series; time that others use does not count."""
    return min(timeit.repeat(call, timer=time.process_time, number=CALLS, repeat=REPEATS)) / CALLS * 1e6


def proved(model: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> Contract:
    """The contract of a model of inputs of sizes batch, length, and a constant."""
    batch, length = Dim("batch", min=1, max=64), Dim("length", min=1, max=512)
    dims = {0: batch, 1: length}
    shapes = (dims,) * len(inputs) if isinstance(model, Attention) else ((dims,) * len(inputs),)
    program = export(model, inputs, dynamic_shapes=shapes, constraints=("length % 8 == 0",))
    contract = program.report.contract
    assert contract is not None  # noqa: S101 - it is proved
    return contract


def three_inputs() -> None:
    """Print what a check costs beside eager."""
    inputs = tuple(torch.randn(2, 16, 32) for _ in range(3))
    contract = proved(Attention(), inputs)
    feed = dict(zip("qkv", inputs, strict=True))
    idle = microseconds(nothing)
    run = microseconds(lambda: Attention()(*inputs))
    for name, call in {
        "as the model takes them": lambda: contract.check(*inputs),
        "by name": lambda: contract.check(None, feed),
        "in a sequence": lambda: contract.check(list(inputs)),
    }.items():
        cost = microseconds(call) - idle
        print(f"{name:<40} {cost:6.1f} us a call, {cost / run:5.0%} of eager attention on [2, 16, 32]")


def ten_inputs(kind: str, widths: list[int]) -> float:
    """Print what a guard costs for ten inputs of these last sizes; return the most."""
    tensors = tuple(torch.randn(2, 16, width) for width in widths)
    contract = proved(Joined(), tensors)
    feed = {each.graph_name: value.numpy() for each, value in zip(contract.inputs, tensors, strict=True)}
    assert all(type(each) is np.ndarray for each in feed.values())  # noqa: S101
    session, bare = shapeproof.guard(Session(), contract), Session()
    function = shapeproof.guard(nothing, contract)
    calls: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "a session, of arrays": (lambda: session.run(None, feed), lambda: bare.run(None, feed)),
        "a function, of tensors": (lambda: function(*tensors), lambda: nothing(*tensors)),
    }
    costs = {name: microseconds(guarded) - microseconds(plain) for name, (guarded, plain) in calls.items()}
    for name, cost in costs.items():
        print(f"{f'{name}, {kind}':<40} {cost:6.1f} us a call")
    return max(costs.values())


def main() -> int:
    """Measure, and judge."""
    torch.set_num_threads(1)
    three_inputs()
    worst = max(ten_inputs("of one shape", [32] * 10), ten_inputs("of ten shapes", list(range(8, 88, 8))))
    return int(worst > MOST)


if __name__ == "__main__":
    sys.exit(main())
