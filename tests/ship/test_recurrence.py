"""A recurrence over a dynamic length is a loop for consumers that have no such operator."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from shapeproof.export import export
from shapeproof.ship import ship
from shapeproof.ship.recurrence import in_loops
from tests.agreement import agree
from tests.export.ops.test_recurrent import KINDS, SIZES
from tests.ship.test_consumers import installed

STEPS = Dim("steps", min=1, max=9)


class Read(nn.Module):
    """What a recurrence gives, scaled so that an output is not taken for a state."""

    def __init__(self, kind: str, **options: bool) -> None:
        super().__init__()
        cls, own, _ = KINDS[kind]
        self.recurrence = cls(6, 4, num_layers=2, **own, **options)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor | tuple[Tensor, ...]]:
        out, state = self.recurrence(x)
        return 2 * out, state


@pytest.mark.parametrize(
    "options",
    [
        {"bias": True, "batch_first": True, "bidirectional": True},
        {"bias": False, "batch_first": False, "bidirectional": False},
    ],
    ids=["both ways", "plain"],
)
@pytest.mark.parametrize(
    "kind", [pytest.param(each, marks=pytest.mark.thorough if each == "tanh" else pytest.mark.slow) for each in KINDS]
)
def test_the_loop_does_what_the_recurrence_does(kind: str, options: dict[str, bool]) -> None:
    first = options["batch_first"]

    def shaped(batch: int, steps: int) -> Tensor:
        return torch.randn(*((batch, steps) if first else (steps, batch)), 6)

    model = Read(kind, **options).eval()
    sizes = {0 if first else 1: Dim("batch", min=0, max=5), 1 if first else 0: STEPS}
    program = export(model, (shaped(3, 5),), dynamic_shapes=(sizes,))
    looped = in_loops(program)
    assert not [node for node in looped.graph.nodes if node.target is KINDS[kind][2]]
    run = looped.module()
    assert all(agree(model, run, (shaped(*sizes),)) for sizes in [*SIZES, (2, 9)])


@pytest.mark.slow
@pytest.mark.parametrize(("to", "batch"), [("onnx", Dim("batch", min=1, max=5)), ("executorch", None)])
@pytest.mark.parametrize("kind", KINDS)
def test_a_consumer_runs_the_loop(kind: str, to: str, batch: Dim | None, tmp_path) -> None:
    installed(to)
    model = Read(kind, batch_first=True, bidirectional=True).eval()
    program = export(model, (torch.randn(3, 5, 6),), dynamic_shapes=({0: batch, 1: STEPS},))
    verdict = ship(program, tmp_path / "model", to=to, model=model)
    assert (verdict.status, verdict.compared >= 8) == ("same", True)
