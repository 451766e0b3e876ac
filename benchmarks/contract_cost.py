"""What a contract costs a call, beside the call itself: microseconds, and the share of a small program's run.

    python -m benchmarks.contract_cost

The C++ header is measured where there is g++.

Exit status 1: `shapeproof.guard` takes more than 5 microseconds for ten inputs.

On two cores that were busy with other work (Python 3.11, torch 2.13), microseconds a call for ten inputs:

    a session, of arrays, of one shape          2.8
    a function, of tensors, of one shape        4.3
    a session, of arrays, of ten shapes         3.0
    a function, of tensors, of ten shapes       4.7
    the C++ header, of ten shapes               0.09
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.export import Dim

import shapeproof
from shapeproof.contract import Contract
from shapeproof.export import export

REPEATS, CALLS = 7, 5_000
LOOP = """
#include "it.h"
#include <chrono>
#include <cstdio>
int main() {{
    std::int64_t sizes[][3] = {{{sizes}}};
    const it::Tensor given[] = {{{tensors}}};
    const auto start = std::chrono::steady_clock::now();
    int refused = 0;
    for (int round = 0; round < 1000000; ++round) {{
        asm volatile("" ::: "memory");  // the sizes are read anew
        refused += it::outside(given[0], given[1], given[2], given[3], given[4], given[5], given[6], given[7], given[8],
                               given[9]).has_value();
    }}
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::printf("%f", refused ? -1.0 : seconds.count());
}}
"""
"""A program that calls a header a million times for ten tensors."""
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
    if shutil.which("g++"):
        print(f"{f'the C++ header, {kind}':<40} {header_microseconds(contract):6.3f} us a call")
    return max(costs.values())


def header_microseconds(contract: Contract) -> float:
    """Of one call of the header for tensors of sizes 2, 16, and the constant."""
    widths = [each.sizes[-1].constant_value for each in contract.inputs]
    sizes = ", ".join(f"{{2, 16, {width}}}" for width in widths)
    tensors = ", ".join(f"{{3, sizes[{index}], it::DType::float32}}" for index in range(len(widths)))
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "it.h").write_text(contract.header("it"), encoding="utf-8")
        Path(folder, "it.cpp").write_text(LOOP.format(sizes=sizes, tensors=tensors), encoding="utf-8")
        subprocess.run(["g++", "-O2", "-std=c++17", "it.cpp", "-o", "it"], cwd=folder, check=True)  # noqa: S607
        return float(subprocess.run([Path(folder, "it")], capture_output=True, check=True).stdout)


def main() -> int:
    """Measure, and judge."""
    torch.set_num_threads(1)
    three_inputs()
    worst = max(ten_inputs("of one shape", [32] * 10), ten_inputs("of ten shapes", list(range(8, 88, 8))))
    return int(worst > MOST)


if __name__ == "__main__":
    sys.exit(main())
