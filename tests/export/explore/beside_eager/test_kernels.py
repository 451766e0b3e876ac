"""Operators that are not torch's own are held against their fake kernels wherever a program is run."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.export import Dim

from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.terms import constant
from shapeproof.export import check
from shapeproof.export.explore.beside_eager import kernels
from shapeproof.export.ops.call import ANYTHING, Span
from tests.export.random_programs import few

ROWS = Dim("n", min=0, max=40)
LIBRARY = torch.library.Library("shapeproof_kernels", "DEF")
OPS = torch.ops.shapeproof_kernels


def define(name, signature, real, fake):
    LIBRARY.define(f"{name}{signature}")
    LIBRARY.impl(name, real, "CPU")
    LIBRARY.impl(name, fake, "Meta")


def rows(n, numbers):
    """A number of rows: `(a*n + b) // c`, and one more or less where n is `odd`."""
    a, b, c, odd, extra = numbers
    return max((a * n + b) // c + (extra if n == odd else 0), 0)


def written(x):
    x.add_(1)
    return x.clone()


define(
    "sized",
    "(Tensor x, int[] real, int[] fake) -> Tensor",
    lambda x, real, _: x.new_ones(rows(x.shape[0], real), 2),
    lambda x, _, fake: x.new_empty(torch.sym_max((fake[0] * x.shape[0] + fake[1]) // fake[2], 0), 2),
)
define("right", "(Tensor x) -> Tensor", torch.clone, torch.empty_like)
define("odd", "(Tensor x) -> Tensor", lambda x: x[: x.shape[0] - (x.shape[0] == 37)].clone(), torch.empty_like)
define("typed", "(Tensor x) -> Tensor", lambda x: x.double(), torch.empty_like)
define(
    "laid", "(Tensor x) -> Tensor", lambda x: x.t().clone(memory_format=torch.contiguous_format).t(), torch.empty_like
)
define("ranked", "(Tensor x) -> Tensor", lambda x: x[None].clone(), torch.empty_like)
define("written", "(Tensor x) -> Tensor", written, torch.empty_like)
define("aliased", "(Tensor x) -> Tensor", lambda x: x, torch.empty_like)
define("twins", "(Tensor x) -> (Tensor, Tensor)", lambda x: (x.clone(),) * 2, lambda x: (x.clone(), x.clone()))
define("counted", "(Tensor x) -> SymInt", lambda x: x.shape[0] + (x.shape[0] == 37), lambda x: x.shape[0])
define("wider", "(Tensor x) -> Tensor", lambda x: torch.cat([x, x], 1), torch.empty_like)


@torch.library.custom_op("shapeproof_kernels::found", mutates_args=())
def found(x: torch.Tensor) -> torch.Tensor:
    return x.nonzero().contiguous().clone(memory_format=torch.contiguous_format)


@found.register_fake
def _(x):
    return x.new_empty(torch.library.get_ctx().new_dynamic_size(), 2, dtype=torch.int64)


@torch.library.custom_op("shapeproof_kernels::doubled", mutates_args=())
def doubled(x: torch.Tensor, more: int) -> torch.Tensor:
    return x.new_ones(2 * int((x[:, 0] > 2).sum()) + more)


@doubled.register_fake
def _(x, more):  # noqa: ARG001 - the size is taken from data
    return x.new_empty(2 * torch.library.get_ctx().new_dynamic_size())


@torch.library.custom_op("shapeproof_kernels::answer", mutates_args=())
def answer(x: torch.Tensor) -> bool:
    return x.shape[0] == 37


@answer.register_fake
def _(x):  # noqa: ARG001 - what it is given is none of its business
    return False


@torch.library.custom_op("shapeproof_kernels::raised", mutates_args=("x",))
def raised(x: torch.Tensor) -> None:
    x.add_(1)


def report_of(forward, n=6, dims=ROWS, **options):
    mod = type("Model", (torch.nn.Module,), {"forward": lambda _, x: forward(x)})()
    return check(mod, (torch.arange(n * 2.0).reshape(n, 2),), dynamic_shapes={"x": {0: dims}}, **options)


def test_an_operator_that_is_right_is_named_as_trusted():
    report = report_of(lambda x: OPS.right(x) + 1)
    assert report.status == "proved"
    note = "trusted: shapeproof_kernels::right (its fake kernel was compared at 41 inputs, not proved)"
    assert note in report.notes


def test_torchs_own_operators_are_not_named():
    assert report_of(lambda x: x.softmax(-1) + x.cumsum(0)).notes == ()


WRONG = {
    "one row less at one size": (OPS.odd, "gives 36 rows where its fake says 37"),
    "another dtype": (OPS.typed, "gives torch.float64 where its fake says torch.float32"),
    "other strides": (OPS.laid, "gives strides [1, 2] where its fake says [2, 1]"),
    "another rank": (OPS.ranked, "gives 3 dimensions where its fake says 2"),
    "another width": (OPS.wider, "gives [0, 4] where its fake says [0, 2]"),
    "a write that is not said": (OPS.written, "writes into its operand `x`, which its schema does not say"),
    "an alias": (OPS.aliased, "gives tensors that share storage otherwise than its fake says"),
    "two results that are one": (OPS.twins, "gives tensors that share storage otherwise than its fake says"),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("used", ["returned", "dead"])
def test_a_fake_that_is_wrong_is_refuted(name, used):
    operator, text = WRONG[name]
    report = report_of(operator if used == "returned" else lambda x: (operator(x), x + 1)[1])
    assert report.status == "refuted"
    assert [(each.id, each.message) for each in report.diagnostics] == [
        ("operator", f"shapeproof_kernels::{operator.__name__} {text}")
    ]


@pytest.mark.thorough
def test_a_fake_that_is_wrong_in_a_branch_is_refuted():
    report = report_of(lambda x: torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: OPS.odd(x) * 1, [x]))
    assert report.diagnostics[0].message == "shapeproof_kernels::odd gives 36 rows where its fake says 37"


def test_a_fake_that_is_wrong_in_a_region_is_refuted():
    forward = lambda x: OPS.right(x) if x.shape[0] < 3 else OPS.odd(x)  # noqa: E731
    assert report_of(forward, branches="split").diagnostics[0].witness == {"x.shape[0]": 37}


def test_a_size_that_data_give_is_what_the_run_gives():
    assert report_of(lambda x: OPS.found(x) * 2).status == "proved"


@pytest.mark.parametrize(
    "use", [torch.clone, lambda y: y.view(2, -1), lambda y: y[: y.shape[0] // 2], lambda y: y.shape[0]]
)
def test_a_size_may_be_a_multiple_of_a_number_that_data_give(use):
    """The fault: `'>=' not supported between instances of 'NoneType' and 'int'`, since `n` of `2*n` had no node."""
    report = report_of(lambda x: x.sum() + use(OPS.doubled(x, 0)))
    assert report.status == "proved"
    for n in (0, 1, 5):
        x = torch.arange(n * 2.0).reshape(n, 2)
        assert torch.equal(report.program.module()(x), x.sum() + use(OPS.doubled(x, 0)))


def test_a_multiple_that_is_none_is_refuted():
    """The fault: an odd number of rows of a fake that says `2*n` was not compared with it."""
    report = report_of(lambda x: OPS.doubled(x, 1) + 1)
    assert [each.id for each in report.diagnostics] == ["operator"]
    assert report.diagnostics[0].message.startswith("shapeproof_kernels::doubled gives ")


def test_an_operator_may_write_what_its_schema_says():
    report = report_of(lambda x: (OPS.raised(x), x * 2)[1])
    assert report.status == "proved"


@few(8)
@given(
    st.tuples(st.integers(0, 2), st.integers(-2, 2), st.integers(1, 3), st.integers(0, 12), st.integers(-1, 1)),
    st.tuples(st.integers(0, 2), st.integers(-2, 2), st.integers(1, 3), st.just(0), st.just(0)),
    st.booleans(),
)
def test_over_a_small_domain_a_wrong_size_is_found_just_where_there_is_one(real, fake, alike):
    """Law: refuted at the smallest size at which the two differ, and proved only where they differ nowhere."""
    real = (*fake[:3], *real[3:]) if alike else real
    report = report_of(lambda x: OPS.sized(x, real, fake), n=5, dims=Dim("n", min=0, max=12))
    wrong = [n for n in range(13) if rows(n, real) != rows(n, fake)]
    assert report.status == ("refuted" if wrong else "proved")
    if wrong:
        assert report.diagnostics[0].witness == {"x.shape[0]": wrong[0]}


@pytest.mark.parametrize("forward", [lambda x: x + OPS.counted(x), lambda x: torch.zeros(OPS.counted(x))])
def test_a_number_that_an_operator_gives_is_taken_from_the_run(forward):
    """The fault: the fake's number stood in the graph, and the operator did not."""
    report = report_of(forward)
    assert report.status == "proved", str(report)
    run = report.program.module()
    for n in (0, 1, 36, 37, 38):
        x = torch.ones(n, 2)
        assert torch.equal(run(x), forward(x))


def test_what_torch_cannot_keep_symbolic_of_an_operator_is_refused():
    with pytest.raises(UsageError, match="gives a bool, which torch cannot keep symbolic"):
        report_of(lambda x: x + 1 if answer(x) else x)


def test_each_way_to_differ_from_a_fake_is_said():
    one, two = torch.ones(1, 3), torch.ones(2, 3)
    for had, noted, said in [
        (one, 1, "gives Tensor where its fake says int"),
        (3, 4, "gives 3 where its fake says 4"),
        (3, 3, None),
        (one, one.double(), "gives torch.float32 where its fake says torch.float64"),
        (one, one[0], "gives 2 dimensions where its fake says 1"),
        (one, two, "gives 1 row where its fake says 2"),
        (two, one, "gives 2 rows where its fake says 1"),
        (two, torch.ones(2, 4), "gives [2, 3] where its fake says [2, 4]"),
        (torch.ones(3, 2).mT, two, "gives strides [1, 2] where its fake says [3, 1]"),
        (torch.ones(3, 1).mT, one, None),
        (torch.ones(3, 0).mT, torch.ones(0, 3), None),
    ]:
        assert kernels._unlike_each(had, noted, lambda size: size) == said
    for low, high, said in [(0, 9, None), (2, 9, "begin at 2"), (0, 0, "end at 0"), (None, 1, None)]:
        stated = Span(*(None if end is None else constant(end) for end in (low, high)))
        text = kernels._outside(torch.tensor([1]), stated)
        assert (text is None) if said is None else text.endswith(said)
    assert kernels._outside(1, ANYTHING) is None
