"""Attention of torch.nn: its functions in Python hide what they call from torch function modes."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

from shapeproof.export import check
from shapeproof.export.declare.inputs import declare
from shapeproof.export.verify import verified
from tests.agreement import agree

ROWS = Dim("batch", min=1, max=8)


class Attends(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x, need_weights=False)[0]


class AsksItsMode(torch.nn.Module):
    """A mode of the model's own sees the method that it sees in eager."""

    def forward(self, x):
        seen = []

        class Seen(torch.overrides.TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                seen.append((func.__name__, kwargs or {}))
                return func(*args, **(kwargs or {}))

        with Seen():
            y = x.t().contiguous() + x.t().contiguous(memory_format=torch.contiguous_format)
        return y if ("contiguous", {}) in seen else y + len(seen)


@pytest.mark.parametrize("tokens", [1, 5])
def test_attention_at_any_batch_is_one_trace(tokens):
    """The fault: `contiguous` asked outside of any operator whether the batch is 1, and that was traced anew."""
    mod, example, dims = Attends().eval(), (torch.randn(3, tokens, 8),), {"x": {0: ROWS}}
    report = check(mod, example, dynamic_shapes=dims)
    slow = verified(mod, declare(mod, example, None, dims), in_place=False)
    assert (report.status, report.statistics["traces"]) == ("proved", 1), str(report)
    assert slow.status == "proved"
    assert all(agree(mod, report.program.module(), (torch.randn(n, tokens, 8),)) for n in (1, 2, 8))


def test_a_mode_of_the_models_sees_contiguous_as_in_eager():
    report = check(AsksItsMode(), (torch.randn(3, 4),), dynamic_shapes={"x": {0: ROWS}})
    assert report.status == "proved", str(report)
    assert "contiguous" not in vars(torch.Tensor)
