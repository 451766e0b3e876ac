"""check_operator: faults planted in fakes are found, with a size; what is right passes, and is proved if it can be."""

from __future__ import annotations

import pytest

from shapeproof.operators import check_operator
from tests.operators_planted import OPAQUE, RIGHT, WRONG, operator

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
