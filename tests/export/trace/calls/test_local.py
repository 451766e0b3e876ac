"""Decisions settled in place: never where it would be wrong, and to the same verdicts as a trace of every cell."""

from __future__ import annotations

import itertools
from math import prod

import pytest
import torch
from hypothesis import given, note
from torch.export import Dim

from benchmarks.models import EXAMPLES, TRANSFORMERS
from shapeproof.constraints.meaning.evaluate import evaluate
from shapeproof.constraints.syntax.text import parse_formula
from shapeproof.constraints.terms import ONE, ZERO, symbol
from shapeproof.export import check
from shapeproof.export.declare.inputs import declare
from shapeproof.export.ops.shapes.layouts import Sizes, same_layout
from shapeproof.export.verify import verified
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import implied
from tests.agreement import agree
from tests.export.random_programs import few, judge, programs

ROWS = Dim("n", min=0, max=6)


def retraced(mod, args, kwargs=None, *, dynamic_shapes=None):
    """As `check`, with a trace for every open question."""
    return verified(mod, declare(mod, args, kwargs, dynamic_shapes), in_place=False)


def report_of(forward, size=(3, 4), dims=None, how=check):
    """The report of a model made of one function of a tensor."""
    mod = type("Model", (torch.nn.Module,), {"forward": lambda _, x: forward(x)})()
    return mod, how(mod, (torch.randn(*size),), dynamic_shapes={"x": dims or {0: ROWS}})


def test_an_assumption_inside_an_operator_needs_no_trace():
    """`einsum` asks whether a size is 1, and gives the same whatever the answer is."""
    mod, report = report_of(lambda x: torch.einsum("ij,kj->ik", x, x).softmax(-1) + 1)
    assert report.status == "proved"
    assert report.statistics["settled in place"] > 0
    assert report.statistics["traces"] == 1
    assert all(agree(mod, report.program.module(), (torch.randn(n, 4),)) for n in range(7))


def two(n):
    return n // 2


@torch.library.custom_op("shapeproof_tests::rows", mutates_args=())
def rows(x: torch.Tensor, left: list[int], right: list[int]) -> torch.Tensor:
    """The length depends on how the numbers are shared out between the lists."""
    return x.new_ones(2 if x.shape[0] == 1 and len(left) == len(right) + 1 else 4)


@rows.register_fake
def _(x, left, right):
    one = x.shape[0] == 1
    return x.new_empty(2 if one and len(left) == len(right) + 1 else 4)


NOT_HERE = {
    "another rank": lambda x: x.squeeze(0),
    "another rank, in place": lambda x: x.clone().squeeze_(0),
    "an alias only at one size": lambda x: x.t().contiguous().add_(1) + x.sum(),
    "a branch in Python": lambda x: x * 100 if x.shape[0] == 1 else x + 1,
    "a branch in Python, after an operator has asked the same": lambda x: (
        x.expand(x.shape[0], 4) * (100 if x.shape[0] == 1 else 1)
    ),
    "a constant": lambda x: x + torch.tensor(1.0 if x.shape[0] == 1 else 2.0),
    "a branch in a subgraph": lambda x: torch.cond(
        x.sum() > 0, lambda x: x * (2 if x.shape[0] == 1 else 3), lambda x: x + 1, [x]
    ),
    "two calls alike but for the nesting of their arguments": lambda x: (
        rows(x, [1], [2, 3]).sum() + rows(x, [1, 2], [3]).sum()
    ),
    "a rank at another size than 0 or 1": lambda x: x.reshape(-1)[: two(x.shape[0])].squeeze(0).unsqueeze(0) * 2,
}


@pytest.mark.parametrize("name", NOT_HERE)
def test_what_makes_a_difference_is_not_settled_in_place(name):
    """Refuted, or a program that does what eager does at every size, or one that refuses."""
    mod, report = report_of(NOT_HERE[name])
    assert report.status == report_of(NOT_HERE[name], how=retraced)[1].status
    if report.program is not None:
        run = report.program.module()
        undecided = report.status == "undecided"
        assert all(agree(mod, run, (torch.randn(n, 4),), may_refuse=undecided) for n in range(7))


@pytest.mark.parametrize("how", [check, retraced])
def test_a_rank_that_is_certainly_wrong_refutes_though_a_size_is_wrong_before_it(how):
    """The fault: where every open question is traced, the size of the product came first, and it was undecided."""
    _, report = report_of(lambda x: (x * (x.shape[0] + 2)).squeeze(0), (1, 4), {0: Dim("n", min=1, max=3)}, how)
    assert report.status == "refuted", str(report)


@pytest.mark.thorough
@pytest.mark.parametrize("how", [check, retraced])
@pytest.mark.parametrize("size", [(3, 4), (0, 3)])
def test_a_guard_that_follows_from_what_is_asked_after_it_is_not_left_out(how, size):
    """The fault: `b != 2` followed from assumptions of the operators, whose cells have no `b == 2`, and was proved."""

    def forward(x):
        a, b = x.shape
        if 3 // (b - 2) + 2 * b >= 6:
            return (x * 2).new_zeros(a, b // 2)
        return x.mul(2).new_zeros(a, b // 2)

    _, report = report_of(forward, size, {each: Dim(name, min=0, max=4) for each, name in enumerate("ab")}, how)
    assert report.status == "refuted", str(report)


FAR = 30_000
"""Rows of an input too large to be run beside eager: only what is proved of them counts."""


def spare(x):
    """A size that is 0 at FAR rows, 1 beside it, and larger elsewhere."""
    return torch.sym_min((x.shape[0] - FAR) ** 2, 6)


REMEMBERED = {
    "is_contiguous": (lambda x: x.new_ones(4, spare(x)).t(), lambda y: (y.contiguous(), y.is_contiguous())),
    "storage_offset": (lambda x: x.new_ones(spare(x), 5)[:, 1:], lambda y: y.contiguous().storage_offset()),
    "a view of another type": (lambda x: x.new_ones(spare(x), 4).t(), lambda y: y.contiguous().view(torch.uint8)),
    "complex numbers": (lambda x: x.new_ones(spare(x), 5)[:, :2], lambda y: torch.view_as_complex(y.contiguous()).real),
}


@pytest.mark.thorough
@pytest.mark.parametrize(("made", "act"), REMEMBERED.values(), ids=REMEMBERED.keys())
def test_a_layout_that_a_tensor_remembers_is_asked_for_everywhere(made, act):
    """`contiguous` asks first, and serves every size; a tensor that is asked again gives the answer for most."""
    _, report = report_of(lambda x: act(made(x)), (5,), {0: Dim("n", min=0, max=2 * FAR)})
    assert report.status != "proved"


def test_a_stride_that_python_reads_is_not_passed_over():
    """The stride of a size of 1 reaches no element, and differs: at n = 1 eager multiplies by another number."""

    def forward(x):
        y = x.t() + 1
        return y * y.stride(1)

    mod, report = report_of(forward)
    if report.program is not None:
        undecided = report.status == "undecided"
        run = report.program.module()
        assert all(agree(mod, run, (torch.randn(n, 4),), may_refuse=undecided) for n in range(7))


def test_every_slice_that_was_settled_in_place_is_run():
    """The program is run where a size is 1 though no trace was made there; a lying model shows."""

    class Lies(torch.nn.Module):
        def forward(self, x):
            y = x.expand(x.shape[0], 4) + 1
            return y if torch.compiler.is_compiling() or x.shape[0] != 1 else y + 1

    report = check(Lies(), (torch.randn(3, 4),), dynamic_shapes={"x": {0: ROWS}})
    assert report.status == "refuted"
    assert report.diagnostics[0].witness == {"x.shape[0]": 1}


@pytest.mark.thorough
@few(16)
@given(programs())
def test_a_random_program_has_a_true_verdict_either_way(program):
    note(str(program))
    judge(program, program.check(how=retraced))
    judge(program, program.check())


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(EXAMPLES | TRANSFORMERS))
def test_a_model_has_the_same_verdict_either_way(name):
    def verdict(how):
        torch.manual_seed(0)
        model, args, kwargs, shapes = (EXAMPLES | TRANSFORMERS)[name]()
        return how(model, args, kwargs, dynamic_shapes=shapes)

    local, apart = verdict(check), verdict(retraced)
    assert local.status == apart.status
    if local.program is not None:  # without a program the domain is what was seen until then
        assert local.domain == apart.domain


SIZED = {5: "a", 7: "b", 11: "c"}
REGIONS = (
    "a*b == 0",
    "a*b*c == 0",
    "a*b <= 1",
    "a == 0 or b <= 1",
    "a + b == 1",
    "b == 1",
    "c <= 1 and a <= 1",
    "a >= 0",
)
"""Of sizes that are not negative."""


def sized(number):
    """The product of the sizes that a number is the product of, as a term."""
    return prod((symbol(name) for value, name in SIZED.items() if number % value == 0), start=ONE if number else ZERO)


@pytest.mark.parametrize("region", REGIONS)
def test_strides_may_differ_only_where_no_element_is_reached(region):
    """The fault: a tensor without elements was another where a product of sizes is 0, and no size is known to be."""
    facts = Facts([*map(parse_formula, ("a >= 0", "b >= 0", "c >= 0", region))])
    points = [dict(zip("abc", values, strict=True)) for values in itertools.product(range(4), repeat=3)]
    inside = [point for point in points if facts.contains(point)]
    one, alike = torch.empty(5, 7, 11, device="meta"), 0
    for order in itertools.permutations(range(3)):
        other = torch.empty([one.shape[at] for at in order], device="meta")
        other = other.permute([order.index(at) for at in range(3)])
        if same_layout(one, other, Sizes(sized, lambda formula: implied(formula, facts))):
            alike += 1
            for point in inside:
                sizes = [point[name] for name in "abc"]
                reached = [at for at, size in enumerate(sizes) if size > 1] if prod(sizes) else []
                strides = [[evaluate(sized(step), point) for step in each.stride()] for each in (one, other)]
                assert all(strides[0][at] == strides[1][at] for at in reached), (order, point)
    empty = not any(prod(point[name] for name in "abc") for point in inside)
    assert alike == 6 if empty else 1 <= alike < 6
