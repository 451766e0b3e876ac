"""Random expressions of sizes have the value in ONNX Runtime that they have in Python."""

from __future__ import annotations

import itertools
import random

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from shapeproof.export import export
from tests.consumers import ways

SHAPES = ({0: Dim("t", min=0, max=20)}, {0: Dim("n", min=1, max=4)})
POINTS = list(itertools.product((0, 1, 2, 5, 7, 8, 19, 20), (1, 2, 3, 4)))
BATCH, BATCHES = 250, 40


def expression(drawn: random.Random, depth: int = 3) -> str:
    """Return an expression of `t` and `n`; what it divides by is never 0, and may be negative."""
    if depth == 0 or drawn.random() < 0.1:
        return drawn.choice(["t", "n", "t", str(drawn.randint(-9, 9))])
    one, other = expression(drawn, depth - 1), expression(drawn, depth - 1)
    divisor = drawn.choice([str(drawn.choice([-7, -4, -3, -2, 2, 3, 4, 7, 8])), "n", "(t + 1)", "(-n)", "(2*n - 5)"])
    return drawn.choice(
        [
            f"({one} + {other})",
            f"({one} - {other})",
            f"({one} * {drawn.randint(-3, 3)})",
            f"({one} // {divisor})",
            f"({one} % {divisor})",
            f"max({one}, {other})",
            f"min({one}, {other})",
        ]
    )


class Computed(nn.Module):
    """The values of expressions, one tensor each."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        drawn = random.Random(seed)
        self.text = f"[{', '.join(expression(drawn) for _ in range(BATCH))}]"

    def values(self, t: int, n: int) -> list[int]:
        return eval(self.text, {"t": t, "n": n, "max": max, "min": min})  # noqa: S307 - written above

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.cat([torch.full((1,), value) for value in self.values(x.shape[0], y.shape[0])])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(BATCHES))
def test_a_size_has_the_value_that_python_gives_it(seed: int) -> None:
    pytest.importorskip("onnxruntime")
    model = Computed(seed)
    program = export(model, (torch.ones(7), torch.ones(3)), dynamic_shapes=SHAPES)
    run = ways.onnx(program)
    for t, n in POINTS:
        assert run(torch.ones(t), torch.ones(n))[0].tolist() == model.values(t, n), (t, n)
