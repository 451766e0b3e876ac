"""What users state of their operators is checked by the program, and only then known."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.export import Dim

from shapeproof.constraints.errors import UsageError
from shapeproof.export import check
from shapeproof.operators import Span, contents, divides, ge, le, promise, span
from tests.export.random_programs import few

ROWS = Dim("n", min=0, max=12)


def kept(name):
    """An operator that keeps positive numbers: how many they are, is data."""

    @torch.library.custom_op(f"shapeproof_stated::{name}", mutates_args=())
    def keep(x: Tensor) -> Tensor:
        return x[x > 0].clone()

    @keep.register_fake
    def _(x):
        return x.new_empty(torch.library.get_ctx().new_dynamic_size())

    return keep


def numbered(name):
    """An operator that gives integers from 0 to k - 1."""

    @torch.library.custom_op(f"shapeproof_stated::{name}", mutates_args=())
    def bucket(x: Tensor, k: int) -> Tensor:
        return (x.abs() * 10).long() % k

    @bucket.register_fake
    def _(x, k):  # noqa: ARG001 - the size of its values shows nowhere
        return torch.empty_like(x, dtype=torch.int64)

    return bucket


plain, bounded, wide, bucket, unstated = (
    kept("plain"),
    kept("bounded"),
    kept("wide"),
    numbered("bucket"),
    numbered("un"),
)


@promise("shapeproof_stated::bounded")
def _(call):
    return [le(call.result().sizes[0], call.tensor("x").numel)]


@contents("shapeproof_stated::bucket")
def _(call, bounds):  # noqa: ARG001 - part of the form
    return span(0, call.integer("k") - 1)


def report_of(forward, dims=ROWS, **options):
    mod = type("Model", (torch.nn.Module,), {"forward": lambda _, x: forward(x)})()
    return check(mod, (torch.tensor([1.0, -2.0, 3.0, 0.5]),), dynamic_shapes={"x": {0: dims}}, **options)


def unless_more(keep):
    def forward(x):
        rows = keep(x)
        return rows if rows.shape[0] <= x.shape[0] else x

    return forward


def agrees(report, forward, sizes=range(13)):
    """The program does what the model does; it may refuse what is not as stated."""
    run = report.program.module()
    for n in sizes:
        x = torch.linspace(-1, 2, n)
        assert torch.equal(run(x), forward(x))


@pytest.mark.thorough
def test_what_is_promised_decides_a_branch_and_is_asserted():
    assert report_of(unless_more(plain)).status == "refuted"
    report = report_of(unless_more(bounded))
    assert report.status == "proved", str(report)
    assert "what is stated of shapeproof_stated::bounded does not hold" in str(report.program.graph)
    agrees(report, unless_more(bounded))


def test_a_promise_over_a_derived_dim_is_computed_from_the_size():
    assert report_of(unless_more(bounded), 2 * Dim("k", min=0, max=6)).status == "proved"


@pytest.mark.thorough
def test_a_promise_in_a_branch_of_a_cond_is_checked_there_or_undecided():
    """As the range that a fake states there: the graph of a branch holds no such check, which the audit finds."""
    forward = lambda keep: lambda x: torch.cond(x.sum() > 0, lambda x: keep(x).sum(), lambda x: x.sum(), [x])  # noqa: E731
    assert report_of(forward(plain)).status == report_of(forward(bounded)).status == "undecided"


def test_a_promise_that_a_run_breaks_is_refuted():
    promise("shapeproof_stated::wide")(lambda call: [le(2 * call.result().sizes[0], call.tensor("x").numel)])
    report = report_of(lambda x: wide(x) * 2)
    assert report.status == "refuted"
    assert "breaks its promise" in report.diagnostics[0].message


def test_a_number_is_asserted_to_lie_where_the_contents_are_stated_to():
    def forward(x):
        most = (bucket(x, 5) + 1).amax().item()
        return x.new_ones(most) if most <= 5 else x

    report = report_of(forward, Dim("n", min=1, max=12))
    assert report.status == "proved", str(report)
    assert "what is stated of the integers in a tensor does not hold" in str(report.program.graph)
    agrees(report, forward, range(1, 13))


@pytest.mark.thorough
@pytest.mark.parametrize(
    "change",
    [lambda t: t.add_(7), lambda t: t.view(-1)[:1].fill_(9), lambda t: t.copy_(t * 3)],
    ids=["in place", "through a view", "copied"],
)
def test_contents_that_were_written_over_are_not_stated_any_more(change):
    def forward(x):
        numbers = bucket(x, 5)
        change(numbers)
        most = numbers.amax().item()
        return x + 1 if most <= 4 else x

    assert report_of(forward, Dim("n", min=1, max=12)).status == "refuted"


def test_a_result_that_is_an_operand_is_not_stated_of():
    library = torch.library.Library("shapeproof_stated_alias", "DEF")
    library.define("same(Tensor(a) x) -> Tensor(a)")
    library.impl("same", lambda x: x, "CompositeExplicitAutograd")
    contents("shapeproof_stated_alias::same")(lambda call, bounds: span(0, 1))  # noqa: ARG005
    forward = lambda x: x + 1 if torch.ops.shapeproof_stated_alias.same(x.long()).sum().item() <= 99 else x  # noqa: E731
    assert report_of(forward).status == "refuted"


@pytest.mark.thorough
@few(8)
@given(st.integers(0, 2), st.integers(1, 3), st.integers(-1, 4), st.integers(0, 14))
def test_a_proved_program_is_right_whatever_is_promised(a, b, c, most):
    """Law: a wrong promise makes a program refuse, and never another result."""
    keep = kept("random")
    promise("shapeproof_stated::random")(
        lambda call: [le(b * call.result().sizes[0], a * call.tensor("x").numel + c), ge(call.result().sizes[0], 0)]
    )

    def forward(x):
        rows = keep(x)
        return x + 1 if rows.shape[0] <= most else x - 1

    report = report_of(forward)
    if report.status != "proved":
        return
    run = report.program.module()
    for n in range(13):
        for positive in range(n + 1):
            x = torch.tensor([1.0] * positive + [-1.0] * (n - positive))
            if b * positive <= a * n + c:
                assert torch.equal(run(x), forward(x))
            else:
                with pytest.raises(RuntimeError, match="what is stated"):
                    run(x)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (lambda call: [le(call.tensor("x").numel, 5)], "does not hold for all sizes that its fake kernel returns"),
        (lambda call: [call.result().sizes[0] <= 5], "raises TypeError"),
        (lambda call: [True], "must return a list of formulas"),  # noqa: ARG005
    ],
)
def test_a_promise_that_cannot_be_kept_is_refused(rule, message):
    keep = kept("refused")
    promise("shapeproof_stated::refused")(rule)
    with pytest.raises(UsageError, match=message):
        report_of(lambda x: keep(x) * 2)


def test_a_promise_that_no_data_keep_is_a_contradiction():
    keep = kept("impossible")
    promise("shapeproof_stated::impossible")(lambda call: [le(call.result().sizes[0], -1)])
    assert report_of(lambda x: keep(x) * 2).status == "refuted"


@pytest.mark.parametrize("found", [span(0, 1.5), (0, 3), [span(0, 1), None]], ids=str)
def test_contents_that_are_no_spans_are_refused(found):
    made = numbered("spanned")
    contents("shapeproof_stated::spanned")(lambda call, bounds: found)  # noqa: ARG005
    with pytest.raises(UsageError, match="must return a Span of terms or a list of them"):
        report_of(lambda x: made(x, 3) * 2)


@pytest.mark.thorough
def test_a_promise_of_multiples_is_computed_by_the_program():
    @torch.library.custom_op("shapeproof_stated::pairs", mutates_args=())
    def pairs(x: Tensor) -> Tensor:
        return x[x > 0].repeat(2)

    @pairs.register_fake
    def _(x):
        return x.new_empty(torch.library.get_ctx().new_dynamic_size())

    promise("shapeproof_stated::pairs")(lambda call: [divides(2, call.result().sizes[0])])
    forward = lambda x: pairs(x).view(2, -1)  # noqa: E731
    report = report_of(forward)
    assert report.status == "proved", str(report)
    agrees(report, forward)


@pytest.mark.parametrize("name", ["half", "aten::relu", "a::b::c", 3])
def test_what_is_no_operator_of_ones_own_is_refused(name):
    with pytest.raises(UsageError):
        promise(name)


def test_the_form_of_a_rule_is_frozen():
    """What rules are given is public: a field that goes or is renamed breaks users' code."""
    seen = []
    keep = kept("frozen")
    promise("shapeproof_stated::frozen")(lambda call: seen.append(call) or [])
    report_of(lambda x: keep(x) * 2)
    call = seen[0]
    assert call.name == "shapeproof_stated.frozen.default"
    assert (call.tensor("x").numel, call.tensor("x").size(call.integer("none"))) == (call.tensor("x").sizes[0], None)
    assert list(type(call).__dataclass_fields__) == ["name", "arguments", "results"]
    assert list(type(call.result()).__dataclass_fields__) == [*("sizes", "dtype", "content", "strides", "offset")]
    assert (call.result().dtype, call.result(1), Span().known) == ("torch.float32", None, False)
