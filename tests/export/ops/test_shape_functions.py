"""Shape functions: what they say of an operator's result is what eager gives, at every size and in every layout."""

from __future__ import annotations

import itertools
import random

import pytest
import torch
from torch.export import Dim
from torch.nn import functional

from shapeproof.constraints.terms import constant
from shapeproof.export import check
from shapeproof.export.ops import schemas
from shapeproof.export.ops.shapes.layouts import Sizes, keeps_layout
from shapeproof.export.ops.shapes.shape_functions import result_like
from shapeproof.export.ops.table import KINDS, OPERATORS, is_unary, known_of
from shapeproof.export.trace.calls.repeats import Repeats
from tests.agreement import agree
from tests.export.shape_samples import ARGUMENTS, ATEN, made, shape
from tests.thoroughness import examples

CONCRETE = Sizes(constant, lambda formula: formula.constant is True)


def tensors(args):
    several = itertools.chain.from_iterable(each if isinstance(each, list) else [each] for each in args)
    return [each for each in several if isinstance(each, torch.Tensor)]


def known_result(func, args, **kwargs):
    """The sizes, the dtype and the strides that the table gives; None where it gives none."""
    return result_like(func, known_of(func).shape, schemas.by_name(func, args, kwargs), tensors(args), CONCRETE)


def lying(found):
    """A tensor with the sizes and the strides that the table gives."""
    sizes, _, strides = found
    return torch.empty(sizes) if strides is None else torch.empty_strided(sizes, strides)


def lies(tensor):
    """The strides that elements are reached by."""
    strides = tensor.stride() if tensor.numel() else ()
    return [stride for stride, size in zip(strides, tensor.shape, strict=False) if size > 1]


def test_every_shape_function_is_held_against_eager():
    assert set(map(str, ARGUMENTS)) == {name for name, known in OPERATORS.items() if known.shape}


@pytest.mark.quick
@pytest.mark.parametrize("func", sorted(ARGUMENTS, key=str), ids=str)
def test_what_a_shape_function_says_is_what_eager_gives(func):
    """Where it speaks, eager raises nothing, and gives one fresh tensor of these sizes, dtype and strides."""
    rng, spoken = random.Random(str(func)), 0
    for _ in range(examples(300)):
        *args, last = ARGUMENTS[func](rng)
        args, kwargs = (args, last) if isinstance(last, dict) else ([*args, last], {})
        found = known_result(func, args, **kwargs)
        if found is None:
            continue
        spoken += 1
        with torch.no_grad():
            result = func(*args, **kwargs)
        assert (tuple(result.shape), result.dtype) == found[:2], args
        assert lies(result) == lies(lying(found)), (result.stride(), args)
        if not known_of(func).drops:  # eager returns the operand: fakes.py
            assert not any(torch._C._is_alias_of(result, each) for each in tensors(args))
    assert spoken > examples(300) // 300


def test_autocast_and_inference_mode_are_left_to_torch():
    args = (torch.ones(2, 3), torch.ones(5, 3))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert known_result(ATEN.linear.default, args) is None
    with torch.inference_mode():
        inside = (torch.ones(2, 3), torch.ones(5, 3))
        assert known_result(ATEN.linear.default, inside) is None


@pytest.mark.quick
@pytest.mark.parametrize(
    ("func", "args", "kwargs"),
    [
        (ATEN.max_pool2d.default, (torch.ones(1, 1, 4, 4), [1, 1, 1]), {}),
        (ATEN.max_pool2d.default, (torch.ones(1, 1, 4, 4), [2, 2], [1, 1, 1]), {}),
        (ATEN.avg_pool2d.default, (torch.ones(1, 1, 4, 4), [2, 2], [], [0, 0, 0]), {}),
        (ATEN.conv2d.default, (torch.ones(1, 1, 4, 4), torch.ones(1, 1, 2, 2), None, [1, 1, 1]), {}),
        (ATEN.add.Tensor, (torch.ones(2), torch.ones(2)), {"alpha": True}),
        (ATEN.add.Tensor, (torch.ones(2).to(torch.float8_e5m2),) * 2, {}),
    ],
)
def test_what_eager_raises_for_whatever_the_sizes_is_left_to_torch(func, args, kwargs):
    """The fault: a window of three sizes for two dims raised a ValueError of ours; the others had a result."""
    assert known_result(func, args, **kwargs) is None
    with pytest.raises((RuntimeError, NotImplementedError)):
        func(*args, **kwargs)


class Reads(torch.nn.Module):
    """A model that acts on how a result lies: torch says that a size of 1 has another stride than a rule would."""

    def __init__(self, question):
        super().__init__()
        self.question, self.norm = question, torch.nn.LayerNorm(4)

    def forward(self, x):
        y = self.norm(x.transpose(0, 1)) + 1
        return y * 2 if self.question(y) else y


@pytest.mark.parametrize(
    "question",
    [
        lambda y: y.is_contiguous(),
        lambda y: y.t().is_contiguous(),
        lambda y: y.stride(0) == 4,
        lambda y: y.stride()[0] == y.stride()[1],
        lambda y: y.view(-1).shape[0] == 4,
    ],
    ids=["contiguous", "transposed", "stride", "strides", "view"],
)
def test_a_model_that_reads_how_a_result_lies_is_not_proved_wrongly(question):
    x = torch.randn(4, 3)
    mod = Reads(question)
    report = check(mod, (x,), dynamic_shapes={"x": {1: Dim("n", min=0, max=5)}})
    if report.program is not None and report.status == "proved":
        assert all(agree(mod, report.program.module(), (torch.randn(4, n),)) for n in range(6))


@pytest.mark.parametrize("compute", [lambda x: x + torch.ones(2), lambda x: x > 0.5], ids=["a sum", "a comparison"])
def test_a_stride_that_no_element_is_reached_by_is_not_taken_from_a_shape_function(compute):
    """The fault: eager gives an empty sum a stride of 0 where the shape function has one of 2."""

    class Strides(torch.nn.Module):
        def forward(self, x):
            y = compute(x)
            return torch.ones(1) if y.stride(1) == 2 else torch.ones(2)

    assert compute(torch.ones(0, 1, 2)).stride(1) == 0
    report = check(Strides(), (torch.randn(3, 1, 2),), dynamic_shapes={"x": {0: Dim("n", min=0, max=4)}})
    assert report.status == "refuted", str(report)


def everything(x, weight):
    """Operators that have a shape function, one upon the other."""
    y = torch.nn.functional.linear(x, weight)
    y = torch.cat([y, x.t().contiguous().t()], 1).softmax(-1) * (x.sum(1, keepdim=True) > 0)
    y = torch.nn.functional.layer_norm(y, (8,)) / y.clamp(min=1.0).mean(1, keepdim=True)
    return (y - torch.linalg.vector_norm(y, dim=-1, keepdim=True)).sum(0)


def of_integers(x, weight):
    """Masks and positions, as models of text make them."""
    at = torch.arange(x.shape[0], device=x.device) + 0
    keep = (x.sum(1) > 0).to("cpu", torch.bool)
    pairs = keep[at[:, None]] & (at[None, :] - at[:, None]).abs().le(2) & at.new_ones((), dtype=torch.bool)
    far = torch.min((at[:, None] * 2).to(torch.float32).to(torch.int64), torch.maximum(at, -at))
    y = functional.embedding(torch.gather(far, 1, at[:, None]).clamp(0, 3).expand(-1, 2), weight)
    y = functional.dropout(y.transpose(0, 1), 0.5, training=False).neg().transpose(0, 1)
    return torch.where(pairs, y.sum((1, 2)), -1.0)


@pytest.mark.parametrize("low", [0, 1])
@pytest.mark.parametrize("compute", [everything, of_integers], ids=["floats", "integers"])
def test_a_program_is_the_one_that_is_traced_where_every_operator_is_run(compute, low, monkeypatch):
    mod = type("Model", (torch.nn.Module,), {"forward": staticmethod(compute)})()
    args = (torch.randn(3, 4), torch.randn(4, 4))
    shapes = {"x": {0: Dim("n", min=low, max=6)}, "weight": None}
    report = check(mod, args, dynamic_shapes=shapes)
    monkeypatch.setattr(Repeats, "given", lambda *_: None)
    without = check(mod, args, dynamic_shapes=shapes)
    assert report.status == without.status == "proved", str(report)
    assert str(report.program.graph) == str(without.program.graph)
    assert all(agree(mod, report.program.module(), (torch.randn(n, 4), args[1])) for n in range(low, 7))


ELEMENTWISE = [getattr(ATEN, name).default for name in KINDS if is_unary(f"aten.{name}.default")]


def test_an_elementwise_operator_lies_as_its_operand_in_every_order_of_dims():
    rng, kept = random.Random(0), 0
    for _ in range(examples(2000)):
        x = made(rng, shape(rng))
        if keeps_layout([x], constant):
            kept += not x.is_contiguous()
            result = rng.choice(ELEMENTWISE)(x)
            assert (result.shape, lies(result), result.dtype) == (x.shape, lies(x), x.dtype)
    assert kept > examples(2000) // 100
