"""How many graphs the programs of PyTorch's dynamic-shapes guides need: torch.compile beside programs on demand.

    python -m benchmarks.graphs

torch.compile runs with dynamic=False, None and True, and its graphs are counted by its backend, which runs them as they
are. Served: how often the model was traced, and how many programs are kept. Declared: the programs of the whole domain,
made ahead, and whether no fewer do. A training step: training.py. Exit status 1: a result, or a gradient, that is not
eager's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch.export import Dim

from benchmarks.training import Perceptron, training
from shapeproof.serve import compile as served
from shapeproof.serve import forecast


class Foo(torch.nn.Module):
    """Ten sines."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """As in the guide."""
        for _ in range(10):
            x = x.sin()
        return x


class Scaled(torch.nn.Module):
    """`f` of the guide."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """As in the guide."""
        return x * x.size()[0]


class Branches(torch.nn.Module):
    """`f` of the guide with branches."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """As in the guide."""
        if x.size()[0] == 10:
            return x * 10
        if x.size()[0] <= 30:
            return x * 200
        return x * x.size()[0]


@dataclass(frozen=True)
class Case:
    """A model, the sizes it is called with, and the domain that is declared of them."""

    title: str
    model: Callable[[], torch.nn.Module]
    sizes: Sequence[int]
    dim: Any
    columns: tuple[int, ...] = ()
    trained: bool = False

    def inputs(self, size: int) -> torch.Tensor:
        """An input of that size."""
        torch.manual_seed(size)
        return torch.randn(size, *self.columns)


CASES = (
    Case("foo, 2..99", Foo, range(2, 100), Dim("n", min=0)),
    Case("foo, 0..99", Foo, range(100), Dim("n", min=0)),
    Case("f, 10..40", Scaled, range(10, 50, 10), Dim("n", min=0)),
    Case("three branches, 10..50", Branches, range(10, 60, 10), Dim("n", min=0)),
    Case("MLP training, rows 1..100", Perceptron, range(1, 101), Dim("n", min=0), (8,), trained=True),
)


def compiled(case: Case, *, dynamic: bool | None) -> tuple[int, bool]:
    """How many graphs torch.compile makes, and whether its results are eager's."""
    torch.compiler.reset()
    graphs = []

    def backend(module: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
        graphs.append(module)
        return module.forward

    with torch._dynamo.config.patch(recompile_limit=1000, accumulated_recompile_limit=10_000):  # noqa: SLF001 - as its guide does
        model = case.model()
        right = results_are_eagers(case, torch.compile(model, dynamic=dynamic, backend=backend), model)
    return len(graphs), right


def results_are_eagers(case: Case, run: Callable[..., Any], model: torch.nn.Module) -> bool:
    """Whether every call gives what a fresh model gives, and every gradient, where it is trained."""
    eager = case.model()
    return all([_alike(case, size, run, model, eager) for size in case.sizes])  # noqa: C419 - all are called


def _alike(case: Case, size: int, run: Callable[..., Any], model: torch.nn.Module, eager: torch.nn.Module) -> bool:
    got, wanted = run(case.inputs(size)), eager(case.inputs(size))
    right = torch.equal(got, wanted)
    if case.trained:
        for result, of in ((got, model), (wanted, eager)):
            of.zero_grad()
            result.square().sum().backward()
        pairs = zip(model.parameters(), eager.parameters(), strict=True)
        right = right and all(torch.equal(_gradient(a), _gradient(b)) for a, b in pairs)
    return right


def _gradient(parameter: torch.nn.Parameter) -> torch.Tensor:
    return torch.zeros(()) if parameter.grad is None else parameter.grad


def row(case: Case) -> tuple[list[str], bool]:
    """The cells of a case, and whether all results are eager's."""
    counts, right = [], True
    for dynamic in (False, None, True):
        count, alike = compiled(case, dynamic=dynamic)
        counts.append(str(count))
        right = right and alike
    model = case.model()
    run = served(model)
    right = results_are_eagers(case, run, model) and right
    shapes = ({0: case.dim},)
    found = forecast(model, (case.inputs(case.sizes[1]),), dynamic_shapes=shapes)
    ahead = served(model, shapes)
    right = results_are_eagers(case, ahead, model) and right and len(ahead.programs) == found.programs
    least = "the least" if found.least else f"at least {found.at_least}"
    cells = [case.title, *counts, f"{run.traced}, {len(run.programs)}", f"{found.programs}, {least}"]
    return [*cells, "as eager" if right else "OTHERWISE"], right


def main() -> int:
    """Count, and judge."""
    names = ("program", "static", "automatic", "dynamic", "served: traced, kept", "declared", "results")
    table = Table(*names, title="graphs: torch.compile, and shapeproof.serve")
    right = True
    for case in CASES:
        cells, alike = row(case)
        table.add_row(*cells)
        right = right and alike
    trained, alike = training()
    console = Console(width=120)
    console.print(table)
    console.print(trained)
    return int(not (right and alike))


if __name__ == "__main__":
    sys.exit(main())
