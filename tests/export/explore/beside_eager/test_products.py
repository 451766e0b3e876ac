"""Products that the runs of a comparison share: what a call returns is what its own kernel would give."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.export import Dim

from shapeproof.export import check
from shapeproof.export.explore.beside_eager import products, replay
from shapeproof.export.explore.beside_eager.forms import forms_of
from shapeproof.export.shim.process.each_call import in_place_of_each_call

aten = torch.ops.aten


@pytest.fixture(autouse=True)
def small_products_count(monkeypatch):
    """Products of any size are shared, of any model."""
    monkeypatch.setattr(products, "PRODUCT_WORK", 0)
    monkeypatch.setattr(products, "CHEAP_ELEMENTS", 0)


def square(*elements):
    return torch.tensor(elements or (1.0, 2.0, 3.0, 4.0)).reshape(2, 2)


NUMBERS = st.sampled_from([0.0, -0.0, 1.0, 2.0, float("nan"), float("inf")])
SQUARES = st.lists(NUMBERS, min_size=4, max_size=4).map(lambda numbers: square(*numbers))
LAYOUTS = st.sampled_from([lambda x: x, torch.t, lambda x: x.t().contiguous().t(), torch.Tensor.double, torch.clone])
CALLS = st.sampled_from(
    [
        (aten.mm.default, 2, {}),
        (aten.addmm.default, 3, {}),
        (aten.addmm.default, 3, {"beta": 0}),
        (aten.addmm.default, 3, {"beta": 0.5}),
        (aten.matmul.default, 2, {}),
    ]
)


@given(st.lists(st.tuples(CALLS, LAYOUTS, st.lists(SQUARES, min_size=3, max_size=3)), min_size=2, max_size=6))
def test_each_call_returns_what_its_kernel_gives(calls):
    """The calls differ in little, so that many are found: in the sign of a zero, the dtype, the strides, a factor."""
    shared = products._Products()
    for (func, count, kwargs), lay, squares in calls:
        operands = tuple(map(lay, squares[:count]))
        got, want = shared.run(func, operands, kwargs), func(*operands, **kwargs)
        assert (got.dtype, got.stride()) == (want.dtype, want.stride())
        bits = torch.int32 if got.dtype == torch.float32 else torch.int64
        assert torch.equal(got.view(bits), want.view(bits))


def counted(run):
    """Return how many kernels multiply while `run` runs."""
    called = []

    def note(func, args, kwargs):
        called.append(str(func))
        return func(*args, **kwargs)

    with in_place_of_each_call(note):
        run()
    return sum(name.startswith(("aten.mm", "aten.addmm", "aten.convolution")) for name in called)


@pytest.mark.parametrize("write", [torch.Tensor.zero_, lambda x: x.data.add_(1), lambda x: x.numpy().fill(7)])
def test_what_is_written_later_is_in_no_product(write):
    shared, a, b = products._Products(), square(), square()
    first = shared.run(aten.mm.default, (a, b), {})
    write(first)
    assert torch.equal(shared.run(aten.mm.default, (a, b), {}), a @ b)
    write(a)
    assert torch.equal(shared.run(aten.mm.default, (a, b), {}), a @ b)
    again = shared.run(aten.mm.default, (a, b), {})
    write(again)
    assert torch.equal(shared.run(aten.mm.default, (a, b), {}), a @ b)


def test_other_modes_are_other_products():
    shared, a = products._Products(), square()
    before = torch.get_float32_matmul_precision()
    try:
        for precision in ("highest", "medium"):
            torch.set_float32_matmul_precision(precision)
            assert counted(lambda: shared.run(aten.mm.default, (a, a), {})) == 1
            assert counted(lambda: shared.run(aten.mm.default, (a, a), {})) == 0
    finally:
        torch.set_float32_matmul_precision(before)


def test_what_is_random_integer_or_written_in_place_is_not_shared():
    shared, a = products._Products(), square()
    calls = [(aten.mm.default, (a.long(), a.long()), {}), (aten.addmm_.default, (square(), a, a), {})]
    calls += [(aten.mm.out, (a, a), {"out": torch.empty(2, 2)}), (aten.bernoulli.p, (a, 0.5), {})]
    for func, args, kwargs in calls:
        shared.run(func, args, kwargs)
    assert not shared.made


def test_no_more_is_kept_than_allowed():
    shared, a, b = products._Products(left=20), square(), square(5.0, 6.0, 7.0, 8.0)
    for each in (a, b):
        shared.run(aten.mm.default, (each, each), {})
    assert counted(lambda: shared.run(aten.mm.default, (a, a), {})) == 0
    assert counted(lambda: shared.run(aten.mm.default, (b, b), {})) == 1


class Net(torch.nn.Module):
    """A convolution and a linear layer, each with an activation in place."""

    def __init__(self):
        super().__init__()
        self.conv, self.head = torch.nn.Conv1d(2, 3, 3), torch.nn.Linear(4, 5)

    def forward(self, x):
        return self.head(self.conv(x).relu_()).relu_()


def program_of(mod, x):
    return torch.export.export(mod, (x,), strict=False)


def test_the_runs_of_a_comparison_multiply_once():
    mod, x = Net(), torch.randn(2, 2, 6)
    (form,) = forms_of(program_of(mod, x))
    found = []
    assert counted(lambda: found.append(replay.compare_on(mod, form, (x,), {}, calls=2))) == 2
    assert found[0].relation is replay.Relation.SAME


@pytest.mark.parametrize("part", ["conv", "head"])
def test_a_program_with_another_weight_is_found(part):
    mod, other, x = Net(), Net(), torch.randn(2, 2, 6)
    other.load_state_dict(mod.state_dict())
    with torch.no_grad():
        getattr(other, part).weight[0, 0] += 1
        getattr(other, part).bias.fill_(1)
        getattr(mod, part).bias.fill_(1)
    (form,) = forms_of(program_of(other, x))
    assert replay.compare_on(mod, form, (x,), {}, calls=1).relation is replay.Relation.DIFFERENT


class Counting(Net):
    """Its second call does not what its first does."""

    def __init__(self):
        super().__init__()
        self.calls = [0]

    def forward(self, x):
        self.calls[0] += 1
        return super().forward(x) * self.calls[0]


@pytest.mark.parametrize(("calls", "relation"), [(1, replay.Relation.SAME), (2, replay.Relation.DIFFERENT)])
def test_a_second_call_that_does_something_else_is_found(calls, relation):
    counting, mod, x = Counting(), Net(), torch.randn(2, 2, 6)
    mod.load_state_dict(counting.state_dict())
    (form,) = forms_of(program_of(mod, x))
    assert replay.compare_on(counting, form, (x,), {}, calls=calls).relation is relation


class Branching(Net):
    def forward(self, x):
        y = super().forward(x)
        return torch.cond(y.sum() > 0, lambda y: y @ y.clone().mT, lambda y: y.cos() @ y.clone().mT, (y,))


@pytest.mark.parametrize("model", [Net, Branching])
def test_a_model_is_proved_with_shared_products(model):
    """`torch.cond` is compiled in eager, and runs under a mode of ours as it does alone."""
    report = check(model(), (torch.randn(2, 2, 6),), dynamic_shapes=({0: Dim("b", max=9)},))
    assert report.status == "proved", report


def test_what_eager_compiles_is_compiled_while_products_are_shared():
    compiled, x = torch.compile(Net(), backend="eager", fullgraph=True), torch.randn(2, 2, 6)
    with products.products_shared(compiled, (x,)):
        result, error = replay.outcome(compiled, (x,), {})
    assert error is None
    assert torch.equal(result, compiled(x))
