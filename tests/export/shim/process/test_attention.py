"""Attention of torch.nn: its functions in Python hide what they call from torch function modes."""

from __future__ import annotations

import pytest
import torch
from torch._dynamo.trace_rules import get_tensor_method
from torch.export import Dim

from shapeproof.export import check
from shapeproof.export.declare.inputs import declare
from shapeproof.export.verify import verified
from tests.agreement import agree
from tests.tiny_models import Attends

ROWS = Dim("batch", min=1, max=8)


class Branches(torch.nn.Module):
    """Has Dynamo read code, for which it lists the methods of tensors."""

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: x.t().contiguous().sin(), lambda x: x.t().contiguous().cos(), (x,))


class AsksForItsName(torch.nn.Module):
    """Looks up what torch calls the method: torch lists the methods of its class once in a process."""

    def forward(self, x):
        return x.t().contiguous() + len(torch.overrides.resolve_name(torch.Tensor.contiguous))


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


def test_torch_lists_its_own_contiguous_during_an_export():
    """The fault: the class of all tensors had another method during a trace.

    Torch listed that one for the rest of the process: torch.compile then refused `torch.Tensor.contiguous`, and a mode
    that looked up its name found none, in eager too, so that the program agreed.
    """
    torch.overrides._get_overridable_functions.cache_clear()
    get_tensor_method.cache_clear()
    dims = {"x": {0: ROWS}}
    report = check(AsksForItsName(), (torch.randn(3, 4),), dynamic_shapes=dims)
    branches = check(Branches(), (torch.randn(3, 4),), dynamic_shapes=dims)
    assert report.status == "proved", str(report)
    assert branches.program is not None
    assert torch.equal(report.program.module()(torch.zeros(2, 4)), torch.full((4, 2), 23.0))
    assert torch.overrides.resolve_name(torch.Tensor.contiguous) == "torch.Tensor.contiguous"
    assert torch._C.TensorBase.contiguous in get_tensor_method()


def patched_for_a_while(x):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.Tensor, "contiguous", lambda self: self * 2)
        return x.t().contiguous()


def test_a_method_that_the_model_gives_tensors_while_it_runs_is_called():
    model = type("Model", (torch.nn.Module,), {"forward": staticmethod(patched_for_a_while)})()
    report = check(model, (torch.randn(3, 4),), dynamic_shapes=({0: ROWS},))
    assert report.status == "proved", str(report)
    assert torch.equal(report.program.module()(torch.ones(2, 4)), torch.full((4, 2), 2.0))
    assert "contiguous" not in vars(torch.Tensor)
