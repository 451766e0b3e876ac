"""A training step of a perceptron on 1 to 100 rows: how often torch.compile compiles, beside one joint program.

torch.compile compiles the forward and the backward graphs that AOTAutograd makes; a compiler that counts them runs them
as they are. The joint program has the results and the gradients in one graph, proved for every number of rows. Where
the rows come from data, it is bounded to one static program. Part of `python -m benchmarks.graphs`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from rich.table import Table
from torch._dynamo.backends.common import aot_autograd
from torch._functorch._aot_autograd.utils import make_boxed_func
from torch.export import Dim

from shapeproof.export import VerifiedProgram, export

ROWS = 100
TOLERANCE = 1e-4
"""A static program adds up rows of zeros too, in another order."""
Step = Callable[[int], tuple[torch.Tensor, dict[str, torch.Tensor]]]
"""From a number of rows to the result, and the gradients by name."""


class Perceptron(torch.nn.Module):
    """A small one, to be trained on batches of any number of rows."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = torch.nn.Linear(8, 16)
        self.second = torch.nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Two layers."""
        return self.second(torch.relu(self.first(x)))


class Loss(torch.nn.Module):
    """A loss over a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Perceptron()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The sum of squares."""
        return self.model(x).square().sum()


class MaskedLoss(torch.nn.Module):
    """A loss over those rows of a batch that a mask names."""

    def __init__(self) -> None:
        super().__init__()
        self.loss = Loss()

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """The sum of squares."""
        return self.loss(x[mask])


def batch(rows: int) -> torch.Tensor:
    """A batch of so many rows."""
    torch.manual_seed(rows)
    return torch.randn(rows, 8)


def masked(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A batch of all rows, of which so many are meant; what the others hold would show."""
    x, mask = 1e3 * batch(ROWS), torch.zeros(ROWS, dtype=torch.bool)
    mask[torch.randperm(ROWS)[:rows]] = True
    x[mask] = batch(rows)
    return x, mask


def stepped(model: torch.nn.Module, run: Callable[..., torch.Tensor], *args: torch.Tensor) -> Any:
    """A step by autograd: the loss, and the gradients by name."""
    model.zero_grad()
    loss = run(*args)
    loss.backward()
    return loss.detach(), {name: parameter.grad for name, parameter in model.named_parameters()}


def are_alike(step: Step, model: torch.nn.Module, inputs: Callable[[int], tuple[torch.Tensor, ...]]) -> bool:
    """Whether a step is eager's at every number of rows."""
    for rows in range(1, ROWS + 1):
        got, wanted = step(rows), stepped(model, model, *inputs(rows))
        try:
            torch.testing.assert_close(got, wanted, rtol=TOLERANCE, atol=TOLERANCE)
        except AssertionError:
            return False
    return True


def compilations(*, dynamic: bool | None) -> tuple[int, bool]:
    """How many graphs torch.compile has compiled, forward and backward, and whether the steps are eager's."""
    torch.compiler.reset()
    graphs = []

    def compiler(module: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
        graphs.append(module)
        return make_boxed_func(module.forward)

    backend = aot_autograd(fw_compiler=compiler, bw_compiler=compiler)
    model = Loss()
    with torch._dynamo.config.patch(recompile_limit=1000, accumulated_recompile_limit=10_000):  # noqa: SLF001 - as its guide does
        run = torch.compile(model, dynamic=dynamic, backend=backend)
        right = are_alike(lambda rows: stepped(model, run, batch(rows)), Loss(), lambda rows: (batch(rows),))
    return len(graphs), right


def joint(model: torch.nn.Module, inputs: Callable[[int], tuple[torch.Tensor, ...]], shapes: Any) -> VerifiedProgram:
    """The joint program of a loss, proved."""
    return export(copy.deepcopy(model), inputs(ROWS // 2), dynamic_shapes=shapes).with_gradients()


def is_right(
    program: VerifiedProgram, model: torch.nn.Module, inputs: Callable[[int], tuple[torch.Tensor, ...]]
) -> bool:
    """Whether a joint program is eager's at every number of rows."""
    run, one = program.module(), torch.ones(())
    return are_alike(lambda rows: tuple(run(*inputs(rows), tangents=[one])), model, inputs)


def is_static(program: VerifiedProgram) -> bool:
    """Whether every size in a program is a number."""
    found = [node.meta.get("val") for node in program.graph.nodes]
    return all(isinstance(size, int) for each in found if isinstance(each, torch.Tensor) for size in each.shape)


def training() -> tuple[Table, bool]:
    """Count, and judge: the table, and whether all is as eager has it."""
    counted = [compilations(dynamic=dynamic) for dynamic in (False, None, True)]
    declared = joint(Loss(), lambda rows: (batch(rows),), ({0: Dim("rows", min=0, max=ROWS)},))
    of_data = joint(MaskedLoss(), masked, None)
    static, _ = of_data.bounded()
    right = (
        all(alike for _, alike in counted)
        and declared.report.status == of_data.report.status == "proved"
        and is_right(declared, Loss(), lambda rows: (batch(rows),))
        and is_static(static)
        and is_right(static, MaskedLoss(), masked)
    )
    names = ("program", "static", "automatic", "dynamic", "joint, proved for", "bounded", "results")
    table = Table(*names, title="training: graphs that are compiled, forward and backward")
    cells = (
        *(str(count) for count, _ in counted),
        f"1: {', '.join(declared.report.domain)}",
        f"1 static, at {ROWS} rows",
    )
    table.add_row("MLP training, rows 1..100", *cells, "as eager" if right else "OTHERWISE")
    return table, right
