"""Operators that are called again as before: their result is given without a run, and is what a run gives."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
import torch.autograd.forward_ad as fwad
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import Dim
from torch.nn import functional

from shapeproof.export import check
from shapeproof.export.ops.table import is_unary
from shapeproof.export.trace.calls.repeats import Repeats
from shapeproof.export.trace.traced import env_of
from shapeproof.export.trace.trial import Trial
from shapeproof.solver.facts import Facts
from tests.agreement import agree

ROWS = Dim("n", min=0, max=6)


def module(forward):
    """A module made of one function."""
    return type("Model", (torch.nn.Module,), {"forward": staticmethod(forward)})()


@pytest.fixture
def given_without_a_run(monkeypatch):
    """The operators whose results were given while a test runs, and whether these have gradients.

    The results are not kept: torch copies what a factory gives if anybody holds it, and loses sight of it.
    """
    found, ask = [], Repeats.given

    def asked(self, key, arguments, operands):
        result = ask(self, key, arguments, operands)
        found.extend([] if result is None else [(key[0], result.requires_grad)])
        return result

    monkeypatch.setattr(Repeats, "given", asked)
    return found


LAYERS = {
    "linear": lambda x: functional.linear(x, torch.ones(4, 4)),
    "attention": lambda x: functional.scaled_dot_product_attention(x[None], x[None], x[None])[0],
    "normed": lambda x: functional.layer_norm(x, (4,)),
    "reshaped": lambda x: x.t().reshape(4, -1).t() * 2,
    "widened": lambda x: torch.cat([x, x], 1).mean(1, keepdim=True).expand_as(x),
    "scanned": lambda x: x.cumsum(0).flip(0),
    "doubled": lambda x: x.double().float(),
    "masked": lambda x: torch.where(x > 0, x, -x),
    "one of two": lambda x: x.max(1, keepdim=True).values - x,
    "in place": lambda x: (x * 2).add_(1).mul_(x),
    "dropped": lambda x: functional.dropout(x, 0.5, training=False),
    "a view of a view": lambda x: (x + 1).t().unsqueeze(0).squeeze(0).t(),
}


def all_of_them(x):
    """Every layer, three times."""
    for _ in range(3):
        for layer in LAYERS.values():
            x = layer(x)
    return x


def noted(program):
    """What is noted of each tensor in a program: its name, its sizes, strides, offset and dtype."""
    read = env_of(program).read
    tensors = {node.name: node.meta["val"] for node in program.graph.nodes if hasattr(node.meta.get("val"), "stride")}
    return {
        name: (*map(read, (*value.shape, *value.stride(), value.storage_offset())), value.dtype, value.requires_grad)
        for name, value in tensors.items()
    }


@pytest.mark.thorough
@pytest.mark.parametrize("tracked", [False, True], ids=["without gradients", "with gradients"])
def test_what_is_given_is_what_a_run_gives(tracked, given_without_a_run, monkeypatch):
    """The program is node by node the one that is traced where every operator is run, and does what eager does."""
    mod, args = module(all_of_them), (torch.randn(3, 4, requires_grad=tracked),)
    with torch.set_grad_enabled(tracked):
        report = check(mod, args, dynamic_shapes={"x": {0: ROWS}})
        monkeypatch.setattr(Repeats, "given", lambda *_: None)
        without = check(mod, args, dynamic_shapes={"x": {0: ROWS}})
    assert report.status == without.status == "proved", str(report)
    assert noted(report.program) == noted(without.program)
    assert len({func for func, _ in given_without_a_run}) > len(LAYERS) // 2
    assert all(agree(mod, report.program.module(), (torch.randn(n, 4),)) for n in range(7))


@pytest.mark.parametrize("tracked", [False, True], ids=["without gradients", "with gradients"])
def test_the_layers_of_a_model_are_run_once(tracked, given_without_a_run):
    mod = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(5)))
    with torch.set_grad_enabled(tracked):
        report = check(mod, (torch.randn(3, 4),), dynamic_shapes={"input": {0: ROWS}})
    assert report.status == "proved"
    linear = torch.ops.aten.linear.default  # by rule, the first one, too
    assert [func for func, _ in given_without_a_run] == [linear] * (5 * report.statistics["traces"])
    assert {has_gradient for _, has_gradient in given_without_a_run} == {tracked}


def nothing_given(mod, given_without_a_run, **options):
    """The report of a model in which nothing may be given."""
    report = check(mod, (torch.randn(3, 4),), dynamic_shapes={"x": {0: ROWS}}, **options)
    assert given_without_a_run == []
    return report


def test_a_tangent_is_not_lost(given_without_a_run):
    """The second product, given without a run, would have none."""

    def forward(x):
        with fwad.dual_level():
            dual = fwad.make_dual(x, torch.ones_like(x))
            return fwad.unpack_dual(dual * dual + dual * dual).tangent

    mod = module(forward)
    report = nothing_given(mod, given_without_a_run)
    assert report.program is None or all(agree(mod, report.program.module(), (torch.randn(n, 4),)) for n in range(7))


@pytest.mark.thorough
def test_a_model_that_takes_gradients_is_traced_with_every_operator_run(given_without_a_run):
    """The second sine, given without a run, has no derivative."""

    def forward(x):
        with torch.enable_grad():
            tracked = x.clone().requires_grad_()
            energy = (tracked.sin() * tracked.sin()).sum()
            return torch.autograd.grad(energy, tracked)[0]

    mod = module(forward)
    report = check(mod, (torch.randn(3, 4),), dynamic_shapes={"x": {0: ROWS}})
    assert report.status == "proved", str(report)
    assert given_without_a_run
    assert all(agree(mod, report.program.module(), (torch.randn(n, 4),)) for n in range(7))


def test_what_an_operator_writes_on_the_side_is_noted_each_time():
    """A batch norm in training writes its statistics: they select other rows after it than before."""

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(4))
            self.register_buffer("var", torch.ones(4))

        def forward(self, x):
            counts = []
            for _ in range(3):
                functional.batch_norm(x, self.mean, self.var, training=True)
                counts.append((self.mean > 0.5).nonzero())
            return torch.cat(counts)

    mod = Model()
    report = check(mod, (torch.randn(3, 4) + 5,), dynamic_shapes={"x": {0: Dim("n", min=2, max=6)}})
    assert report.status == "proved", str(report)
    counted = [node for node in report.program.graph.nodes if node.target is torch.ops.aten.nonzero.default]
    sizes = {str(node.meta["val"].shape[0]) for node in counted}
    terms = {env_of(report.program).read(node.meta["val"].shape[0]) for node in counted}
    assert len(sizes) == len(terms) == 3


def test_ambient_modes_tell_calls_apart():
    """The same product, of other types: under autocast, and by the default type."""

    def forward(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            half = x @ x.t()
        with torch.autocast("cpu", dtype=torch.float16):
            other = x @ x.t()
        return half, other, x @ x.t()

    report = check(module(forward), (torch.randn(3, 4),), dynamic_shapes={"x": {0: ROWS}})
    assert report.program is not None, str(report)
    found = [value.meta["val"].dtype for value in report.program.graph.output_node().args[0]]
    assert found == [torch.bfloat16, torch.float16, torch.float32]


def test_integers_are_computed_each_time():
    """What is known of the integers in a tensor hangs on the tensor."""

    def forward(x):
        low, high = x.long().clamp(0, 1), x.long().clamp(5, 9)
        return torch.ones(12)[low + 1], torch.ones(12)[high + 1], torch.ones(3)[low + 1]

    mod = module(forward)
    report = check(mod, (torch.randn(3, 4),), dynamic_shapes={"x": {0: ROWS}})
    assert report.status == "proved", str(report)


def test_what_was_found_on_one_way_is_forgotten_where_it_ends():
    """A check in a branch of torch.cond holds in that branch alone, and so does what was settled by it."""
    trial = Trial(Facts(), {}, data=lambda _: True)
    trial.enter()
    trial.memo["a call"] = frozenset({0})
    trial.leave()
    assert not trial.memo


def test_looking_at_a_result_asks_nothing():
    """Where a slice begins in its storage may depend on sizes; a comparison of it with 0 would be a branch."""
    report = check(module(lambda x: (x[-6:], x[:7])), (torch.randn(3, 4),), dynamic_shapes={"x": {0: Dim("n", min=0)}})
    assert (report.status, report.decisions) == ("proved", ())


def test_an_operator_that_gives_several_results_is_run_each_time():
    """Where nothing was drawn, the pair was looked up as if it were one tensor."""
    mod = module(lambda x: (x.max(1).values, x.max(1).values))
    report = check(mod, (torch.ones(3, 4, dtype=torch.int64),), dynamic_shapes={"x": {0: ROWS}})
    assert report.status == "proved", str(report)


def test_a_view_that_is_not_run_says_that_it_is_one(given_without_a_run):
    model = module(lambda x: x.unsqueeze(1) * 2 if x.unsqueeze(1)._is_view() else x.unsqueeze(1))
    report = check(model, (torch.ones(3, 4),), dynamic_shapes=({0: ROWS},))
    assert report.status == "proved"
    assert torch.ops.aten.unsqueeze.default in dict(given_without_a_run)
    assert torch.equal(report.program.module()(torch.ones(2, 4)), torch.full((2, 1, 4), 2.0))


ELEMENTWISE = [
    each
    for name in dir(torch.ops.aten)
    if is_unary(each := getattr(getattr(torch.ops.aten, name), "default", None)) and not each._schema.is_mutable
]
NUMBERS = (-1.5, -1, 0, 2, 1e300, math.inf, math.nan)


@pytest.mark.parametrize("func", ELEMENTWISE, ids=str)
def test_an_elementwise_operator_that_need_not_be_run_refuses_no_number(func):
    """The fault: `softshrink` refuses a lambda below 0, which is a question about a size where a size gives it."""
    named = [each.name for each in func._schema.arguments if str(each.type) in {"number", "float"}]
    with FakeTensorMode():
        x = torch.empty(3, 4)
        for numbers in itertools.product(NUMBERS, repeat=len(named)):
            assert func(x, **dict(zip(named, numbers, strict=True))).dtype == x.dtype


def test_softshrink_raises_where_its_lambda_is_below_zero():
    model = module(lambda x: functional.softshrink(x, 2.5 - x.shape[0]))
    report = check(model, (torch.ones(2, 4),), dynamic_shapes=({0: ROWS},))
    assert report.status == "refuted", str(report)
    assert "by aten.softshrink.default" in str(report)


def test_softshrink_that_the_model_catches_raises_in_the_trace():
    def forward(x):
        try:
            return functional.softshrink(x, -0.5)
        except RuntimeError:
            return x * 2

    report = check(module(forward), (torch.ones(2, 4),), dynamic_shapes=({0: ROWS},))
    assert report.status == "proved", str(report)
    assert torch.equal(report.program.module()(torch.ones(3, 4)), torch.full((3, 4), 2.0))
