"""What rules say of results that lie row by row is what eager gives: sizes, strides, dtype, a storage of its own."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.export import Dim
from torch.nn import functional

from shapeproof.constraints.terms import constant
from shapeproof.export import check
from shapeproof.export.ops import row_major
from shapeproof.export.ops.row_major import lies_row_by_row, result_sizes
from tests.agreement import agree

aten = torch.ops.aten
SIZES = (0, 1, 2, 3)


def shapes(rank):
    return itertools.product(SIZES, repeat=rank)


def rows(*sizes, dtype=torch.float32):
    return torch.ones(sizes, dtype=dtype)


def linear():
    for *lead, k, m in [*shapes(3), *shapes(4)]:
        yield aten.linear.default, (rows(*lead, k), rows(m, k), rows(m))
        yield aten.linear.default, (rows(*lead, k), rows(m, k))
        yield aten.linear.default, (rows(*lead, k), rows(m, 2), rows(1))


def products():
    for a, b, c, d in shapes(4):
        yield aten.mm.default, (rows(a, b), rows(c, d))
        yield aten.addmm.default, (rows(d), rows(a, b), rows(c, d))


def lying_otherwise():
    for a, b, c, d in shapes(4):
        for x, y in itertools.product((rows(b, a).t(), rows(a, b, 2)[..., 0], rows(a, 1).expand(a, b)), repeat=2):
            factors = x, y[:1].expand(d, b).t() if a else rows(b, d)
            yield aten.mm.default, factors
            yield aten.addmm.default, (rows(1).expand(d), *factors)
            yield aten.linear.default, (x, rows(b, c).t(), rows(c, 2)[:, 1])


def normed():
    for a, b, c in shapes(3):
        yield aten.layer_norm.default, (rows(a, b, c), [c], rows(c), rows(c))
        yield aten.layer_norm.default, (rows(a, b, c), [b, c], rows(b, c))
        yield aten.layer_norm.default, (rows(a, b, c), [2], rows(c))


def batch_normed():
    for sizes in [*shapes(2), *shapes(3), *shapes(4)]:
        vectors = [rows(sizes[1]) for _ in range(4)]
        yield aten.batch_norm.default, (rows(*sizes), *vectors, False, 0.1, 1e-5, False)
        yield aten.batch_norm.default, (rows(*sizes), None, None, *vectors[:2], False, 0.1, 1e-5, True)
        yield aten.batch_norm.default, (rows(*sizes), None, None, rows(2), rows(2), False, 0.1, 1e-5, True)


def embedded():
    for count, width, *sizes in [*shapes(2), *shapes(3), *shapes(4)]:
        indices = torch.zeros(sizes, dtype=torch.int64)
        if count or not indices.numel():  # what is looked up is data
            yield aten.embedding.default, (rows(count, width), indices)
            yield aten.embedding.default, (rows(count, width), indices.int())


def of_two():
    some = [sizes for rank in range(4) for sizes in itertools.product((0, 1, 2), repeat=rank)]
    for mine, other in itertools.product(some, repeat=2):
        yield aten.add.Tensor, (rows(*mine), rows(*other))
    for sizes in some:
        yield from ((op, (rows(*sizes), 2.5)) for op in (aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor))
        yield aten.mul.Tensor, (rows(*sizes), rows(*sizes, dtype=torch.float64))
        yield aten.pow.Tensor_Scalar, (rows(*sizes), 2)


def reduced():
    for sizes in [(), *shapes(1), *shapes(3)]:
        for dims in ([], [-1], [0], [1, 2], [0, -1], [3], [1, 1]):
            for keep in (False, True):
                yield aten.mean.dim, (rows(*sizes), dims, keep)
                yield aten.sum.dim_IntList, (rows(*sizes, dtype=torch.bfloat16), dims, keep)


CALLS = [linear, products, lying_otherwise, normed, batch_normed, embedded, of_two, reduced]


def reaching(tensor):
    """The strides that reach an element."""
    return [stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1 and tensor.numel()]


@pytest.mark.parametrize("calls", CALLS)
def test_eager_gives_what_a_rule_says(calls):
    said = 0
    for func, args in calls():
        operands = [each for each in args if isinstance(each, torch.Tensor)]
        sizes = result_sizes(func, (args, {}), operands, constant)
        if sizes is None:
            continue
        said += 1
        result = func(*args)
        plain = torch.empty(sizes)
        assert tuple(result.shape) == tuple(sizes), (func, args)
        assert reaching(result) == reaching(plain), (func, args)
        assert result.is_contiguous()
        assert result.storage_offset() == 0
        assert result.dtype == operands[0].dtype
        assert result.untyped_storage()._cdata not in {each.untyped_storage()._cdata for each in operands}
    assert said > len(SIZES) ** 2


@pytest.mark.parametrize("operand", [0, 1])
def test_no_rule_speaks_of_another_layout(operand):
    x = [rows(3, 3), rows(3, 3)]
    x[operand] = x[operand].t()
    assert not lies_row_by_row(x[operand], constant)
    assert result_sizes(aten.add.Tensor, (tuple(x), {}), x, constant) is None


def test_no_rule_speaks_of_numbers_that_are_not_plain():
    x = rows(2, 2)
    for kwargs in ({"alpha": True}, {"alpha": 2j}):
        assert result_sizes(aten.add.Tensor, ((x, x), kwargs), [x, x], constant) is None
    with torch.autocast("cpu"):
        assert result_sizes(aten.mm.default, ((x, x), {}), [x, x], constant) is None


ROWS = Dim("n", min=0, max=6)


def model_of(forward):
    return type("Model", (torch.nn.Module,), {"forward": lambda _, x: forward(x)})()


ASKED = {
    "linear": lambda x: functional.linear(x, torch.ones(3, 4), torch.ones(3)),
    "of three dimensions": lambda x: functional.linear(x[None], torch.ones(3, 4)),
    "product": lambda x: torch.addmm(torch.ones(3), x, torch.ones(4, 3)) + torch.mm(x, torch.ones(4, 3)),
    "layer norm": lambda x: functional.layer_norm(x, (4,), torch.ones(4)),
    "batch norm": lambda x: functional.batch_norm(x, torch.ones(4), torch.ones(4)),
    "batch norm of images": lambda x: functional.batch_norm(x[..., None], torch.ones(4), torch.ones(4)),
    "embedding": lambda x: functional.embedding(torch.zeros_like(x, dtype=torch.int64), torch.ones(3, 2)),
    "arithmetic": lambda x: (x + x[None] * 2 - torch.ones(4)).div(3) ** 2,
    "reductions": lambda x: x.mean(0, keepdim=True) + x.sum(1, keepdim=True),
}


@pytest.mark.parametrize("name", ASKED)
def test_what_torch_would_have_asked_makes_no_difference(name, monkeypatch):
    """What an operator assumes that is run by others, as torch.compile runs it, is harmless at every size."""
    monkeypatch.setattr(row_major, "_RULES", {})
    report = check(model_of(ASKED[name]), (torch.randn(5, 4),), dynamic_shapes={"x": {0: ROWS}})
    assert report.status == "proved", str(report)
    assert report.statistics["traces"] == 1


BEFORE = {
    "a stride that Python reads": lambda x: x * (x[:, None] + 1).stride(0),
    "contiguous, then written": lambda x: (x[None] * 2).transpose(0, 1).contiguous().add_(1),
    "a side that one size takes": lambda x: (x + 1) if (x * 2).shape[0] == 1 else (x + 2),
    "a condition that is returned": lambda x: (x * 2, (x * 2).shape[0] > 1),
    "rows that do not fit": lambda x: torch.nn.functional.linear(x, torch.ones(2, x.shape[0] - 1)),
    "a size of 1 that is broadcast": lambda x: x[:1] + x,
}


@pytest.mark.parametrize("name", BEFORE)
def test_a_model_whose_results_are_given_has_a_true_verdict(name):
    mod = model_of(BEFORE[name])
    report = check(mod, (torch.randn(5, 4),), dynamic_shapes={"x": {0: ROWS}})
    run = report.program.module() if report.program is not None else None
    refused = report.status != "proved"
    assert run is not None or refused
    if run is not None:
        assert all(agree(mod, run, (torch.randn(n, 4),), may_refuse=refused) for n in range(7))
