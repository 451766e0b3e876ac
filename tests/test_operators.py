"""check_operator: faults planted in fakes are found, with a size; what is right passes, and is proved if it can be."""

from __future__ import annotations

import re

import pytest
import torch

from shapeproof.ci.jobs import Outcome, checks_of
from shapeproof.ci.process.worker import _operator_verdict
from shapeproof.ci.specs.spec import load_spec
from shapeproof.constraints.errors import UsageError
from shapeproof.export import check
from shapeproof.operators import check_operator
from tests.operators_planted import MATRIX, OPAQUE, RIGHT, WRONG, Planted, operator

CHEAP = {
    *("half", "half, as floats", "odd at 37", "wide", "added", "split", "branched, as one", "from data, bounded"),
    *("one row too few", "wrong at 37", "another dtype", "another stride", "two results that are one"),
    *(
        "a write at 9",
        "a write far out",
        "from data without a bound",
        "a bound that is none",
        "numpy, wrong at 23",
        "numpy",
    ),
}


def those(planted):
    """All of them; what is not cheap is slow."""
    return [pytest.param(name, marks=[] if name in CHEAP else [pytest.mark.slow]) for name in planted]


@pytest.mark.thorough
@pytest.mark.parametrize("name", those(RIGHT))
def test_a_right_fake_of_a_kernel_in_python_is_proved(name):
    report = check_operator(operator(RIGHT[name]), RIGHT[name].specs)
    assert report.status == "proved", str(report)
    assert report.passed


@pytest.mark.parametrize("name", those(OPAQUE))
def test_a_right_fake_of_an_opaque_kernel_agrees_and_is_not_proved(name):
    report = check_operator(operator(OPAQUE[name]), OPAQUE[name].specs)
    assert report.status == "agrees", str(report)
    assert report.compared == 49
    assert report.passed


@pytest.mark.parametrize("name", those(WRONG))
def test_a_planted_fault_is_found_with_a_size(name):
    report = check_operator(operator(WRONG[name]), WRONG[name].specs)
    assert report.status == ("undecided" if name == "from data without a bound" else "refuted"), str(report)
    assert not report.passed
    assert all(each.witness for each in report.diagnostics)


def test_a_kernel_that_calls_another_operator_is_as_good_as_the_fake_of_that():
    """The fault that it looks for: the inner fake is wrong far out, and the outer one says the same."""
    inner = operator(WRONG["wrong far out"])

    def kernel(x: torch.Tensor) -> torch.Tensor:
        return inner(x).clone()

    report = check_operator(operator(Planted(kernel, torch.empty_like)), WRONG["wrong far out"].specs)
    assert report.status == "agrees"
    assert "whose fake is not proved here" in report.notes[0]


def refuses_four_rows(x: torch.Tensor) -> torch.Tensor:
    if x.shape[0] == 4:
        raise RuntimeError("no four rows")
    return torch.from_numpy(x.numpy().copy())


def a_view_at_six(x: torch.Tensor) -> torch.Tensor:
    """Torch refuses a result that shares memory with an operand when it is called."""
    return x[:] if x.shape[0] == 6 else x.clone()


@pytest.mark.parametrize(("kernel", "rows"), [(refuses_four_rows, 4), (a_view_at_six, 6)])
def test_a_kernel_that_raises_at_sizes_that_its_fake_takes(kernel, rows):
    """The fault: such a run was not compared, and the operator agreed with its fake."""
    made = operator(Planted(kernel, torch.empty_like))
    (found,) = check_operator(made, MATRIX).diagnostics
    assert found.witness == {"x.shape[0]": rows}
    assert "raises where its fake does not" in found.message

    class Model(torch.nn.Module):
        def forward(self, x):
            return made(x) * 2

    report = check(Model(), (torch.ones(3, 3),), dynamic_shapes={"x": {0: torch.export.Dim("n", min=0, max=9)}})
    assert [each.witness for each in report.diagnostics] == [{"x.shape[0]": rows}]


def test_a_kernel_that_raises_on_data_is_not_refuted():
    def kernel(x: torch.Tensor) -> torch.Tensor:
        if bool((x > 0).any()):
            raise RuntimeError("negative numbers only")
        return torch.from_numpy(x.numpy().copy())

    assert check_operator(operator(Planted(kernel, torch.empty_like)), MATRIX).status == "agrees"


def test_a_kernel_that_another_library_puts_in_its_place_is_not_taken_for_the_one_in_python():
    made = operator(RIGHT["same"])
    name = made._qualname
    library = torch.library.Library(name.partition("::")[0], "IMPL")
    library.impl(name.partition("::")[2], lambda x: x.clone(), "CPU")
    report = check_operator(made, RIGHT["same"].specs)
    assert report.status == "agrees"


LIBRARY = torch.library.Library("shapeproof_library", "DEF")
LIBRARY.define("times(Tensor self, int k=2, *, float by=1.0) -> Tensor")
LIBRARY.impl("times", lambda self, k=2, *, by=1.0: self.repeat(k, 1) * by, "CPU")
LIBRARY.impl("times", lambda self, k=2, *, by=1.0: self.new_empty(self.shape[0] * k, 3), "Meta")  # noqa: ARG005
LIBRARY.define("bare(Tensor x) -> Tensor")
LIBRARY.impl("bare", torch.clone, "CPU")


@pytest.mark.parametrize(
    ("args", "kwargs"), [((MATRIX[0], 3), {}), ((), {"self": MATRIX[0], "k": 3}), (MATRIX, {"by": 2.0})]
)
def test_an_argument_may_be_called_self_and_given_by_name(args, kwargs):
    report = check_operator(torch.ops.shapeproof_library.times, args, kwargs)
    assert (report.status, report.compared) == ("agrees", 49)
    assert report.results == (f"float32[{2 if 'by' in kwargs else 3}*input.shape[0], 3]",)


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("shapeproof_library::bare", MATRIX, "the fake kernel of shapeproof_library::bare cannot be run"),
        ("shapeproof_library::none", MATRIX, "expected an operator with one overload"),
        ("shapeproof_library::times", MATRIX[0], "args must be a tuple"),
        ("shapeproof_library::times", (*MATRIX, 1, 2), "too many positional arguments"),
        ("aten::relu", MATRIX, "is torch's own operator"),
    ],
)
def test_what_cannot_be_checked_is_a_sentence(name, args, message):
    with pytest.raises(UsageError, match=message):
        check_operator(name, args)


def test_an_operator_that_always_raises_is_not_passed():
    def kernel(x: torch.Tensor) -> torch.Tensor:  # noqa: ARG001
        raise ValueError("never")

    assert not check_operator(operator(Planted(kernel, torch.empty_like)), MATRIX).passed


def test_the_fixture_gives_the_report_or_fails_with_it(verify_operator):
    assert verify_operator(operator(RIGHT["half"]), RIGHT["half"].specs).status == "proved"
    with pytest.raises(pytest.fail.Exception, match="gives 1 row where its fake says 0"):
        verify_operator(operator(WRONG["one row too few"]), WRONG["one row too few"].specs)
    with pytest.raises(pytest.fail.Exception, match="expected an operator with one overload"):
        verify_operator(torch.relu, MATRIX)


SPEC = """
dims.n = { min = 0, max = 16 }
operators.right = { target = "ops:half", inputs.x = { dtype = "float32", dims = ["n", 2] }, values = { k = 3 } }
operators.odd = { target = "ops:odd", inputs.x = { dtype = "float32", dims = ["n", 2] }, expect = "refuted" }
"""
CODE = """
import torch

@torch.library.custom_op("shapeproof_spec::half", mutates_args=())
def made(x: torch.Tensor, k: int = 2) -> torch.Tensor:
    return x[: (x.shape[0] + k - 1) // k].clone()

@made.register_fake
def _(x, k=2):
    return x.new_empty(x.shape[0] // 2 if k == 2 else (x.shape[0] + k - 1) // k, 2)

def half():
    return made

odd = half
"""


def test_operators_of_a_spec_are_checked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ops.py").write_text(CODE, encoding="utf-8")
    (tmp_path / "shapeproof.toml").write_text(SPEC, encoding="utf-8")
    checks = list(checks_of(load_spec(tmp_path / "shapeproof.toml")))
    assert [(each.name, each.line, each.expected) for each in checks] == [
        ("operators.right", 3, "agrees"),
        ("operators.odd", 4, "refuted"),
    ]
    outcomes = [Outcome(each, _operator_verdict(each.job, lambda _: None, 0.0)) for each in checks]
    assert [each.result.status for each in outcomes] == ["proved", "refuted"]
    assert all(each.passed for each in outcomes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SPEC.replace("dims = [", "dimz = [", 1), "`operators.right.inputs.x.dimz` is not a key of a spec"),
        (SPEC.replace('"n", 2', '"m", 2', 1), "'m' names `m`, which is not among the dims"),
        (SPEC.replace("refuted", "fine"), "`operators.odd.expect` cannot be 'fine'; there are proved, agrees"),
    ],
)
def test_what_cannot_be_meant_is_a_sentence(tmp_path, text, message):
    path = tmp_path / "shapeproof.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=re.escape(message)):
        load_spec(path)
