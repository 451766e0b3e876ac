"""check_operator: faults planted in fakes are found, with a size; what is right passes, and is proved if it can be."""

from __future__ import annotations

import re

import pytest
import torch

from shapeproof.ci.jobs import Outcome, operator_checks_of
from shapeproof.ci.spec import load_spec
from shapeproof.ci.worker import _operator_verdict
from shapeproof.constraints.errors import UsageError
from shapeproof.operators import check_operator
from tests.operators_planted import MATRIX, OPAQUE, RIGHT, WRONG, operator

CHEAP = {
    *("half", "half, as floats", "odd at 37", "wide", "added", "split", "branched, as one", "from data, bounded"),
    *("one row too few", "wrong at 37", "another dtype", "another stride", "two results that are one"),
    *("a write at 9", "from data without a bound", "a bound that is none", "numpy, wrong at 23", "numpy"),
}


def those(planted):
    """All of them; what is not cheap is slow."""
    return [pytest.param(name, marks=[] if name in CHEAP else [pytest.mark.slow]) for name in planted]


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
    checks = list(operator_checks_of(load_spec(tmp_path / "shapeproof.toml")))
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
        (SPEC.replace("refuted", "fine"), "`operators.odd.expect` must be"),
    ],
)
def test_what_cannot_be_meant_is_a_sentence(tmp_path, text, message):
    path = tmp_path / "shapeproof.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=re.escape(message)):
        load_spec(path)
