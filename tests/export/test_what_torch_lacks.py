"""What torch cannot trace is said in one sentence of what to do; what is advised is proved."""

from __future__ import annotations

import pytest
import torch
from torch._higher_order_ops.associative_scan import associative_scan
from torch.export import Dim

from shapeproof.constraints.errors import UsageError
from shapeproof.export import check, export
from tests.agreement import agree

SHAPES = {"x": {0: Dim("n", min=2, max=8)}}


def of(forward):
    return type("Model", (torch.nn.Module,), {"forward": lambda _, x: forward(x)})()


def jagged(x):
    return torch.nested.nested_tensor_from_jagged(x, torch.tensor([0, 2, 5])).values()


def listed(x):
    return torch.nested.nested_tensor([x, x * 2], layout=torch.jagged).values()


def counted(x):
    return x * x.to_sparse()._nnz()


def around(x):
    number = x.sum().to(torch.int64).item()
    return torch.cond(x.sum() > 0, lambda x: x * number, lambda x: x - number, (x,))


def around_float(x):
    number = x.sum().item()
    return torch.cond(x.sum() > 0, lambda x: x * number, lambda x: x - number, (x,))


REFUSED = {
    jagged: r"makes a nested tensor, which torch cannot trace: use padded tensors and lengths",
    listed: r"cannot trace nested tensors, at .*: use padded tensors and lengths",
    counted: r"torch has no rule for what `aten\._to_sparse\.default` gives without data",
    around: r"a branch of torch\.cond uses a number that is taken from data outside of it: pass the tensor",
    around_float: r"a branch of torch\.cond uses a number that is taken from data outside of it: pass the tensor",
}


@pytest.mark.parametrize("forward", REFUSED, ids=lambda forward: forward.__name__)
def test_it_is_refused_in_one_sentence_with_the_line(forward):
    with pytest.raises(UsageError, match=REFUSED[forward]) as raised:
        export(of(forward), (torch.rand(5, 4),), dynamic_shapes=SHAPES)
    assert len(str(raised.value).splitlines()) == 1
    assert "test_what_torch_lacks.py:" in str(raised.value)


@pytest.mark.parametrize("layout", [torch.jagged, torch.strided])
def test_a_nested_input_is_refused_by_its_name(layout):
    nested = torch.nested.nested_tensor([torch.ones(2, 4), torch.ones(3, 4)], layout=layout)
    with pytest.raises(UsageError, match="`x` is a nested tensor, which cannot be exported: pass a padded tensor"):
        export(of(lambda x: x * 2), (nested,))


def inside(x):
    total = x.sum()
    return torch.cond(total > 0, lambda x, t: x * t.item(), lambda x, t: x - t.item(), (x, total))


def derived(x):
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        (slope,) = torch.autograd.grad((x**3).sum(), x)
    return slope


@pytest.mark.parametrize("forward", [inside, derived], ids=lambda forward: forward.__name__)
def test_what_can_be_written_otherwise_is_proved(forward):
    model = of(forward)
    run = export(model, (torch.rand(5, 4),), dynamic_shapes=SHAPES).module()
    assert all(agree(model, run, (torch.randn(n, 4),)) for n in range(2, 9))


def test_a_scan_is_unrolled_for_its_length_and_no_other_is_claimed():
    model = of(lambda x: associative_scan(torch.add, x, 0, combine_mode="generic"))
    assert check(model, (torch.rand(5, 4),)).status == "proved"
    report = check(model, (torch.rand(5, 4),), dynamic_shapes=SHAPES)
    assert report.status == "refuted"
    assert "n = 5" in [each.text for found in report.diagnostics for each in found.help]
