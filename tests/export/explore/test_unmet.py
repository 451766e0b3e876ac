"""Sizes at which no data pass the checks of a model: refuted with the smallest, given up where they are inferred."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

from shapeproof.export import check
from tests.agreement import RAISES, agree, outcome

X, COUNT = torch.tensor([1.0, 0.0, 2.0]), torch.tensor(3)


class Model(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x, y, n):
        return self.function(x, y, n.item())


def verdict(function, n, m=None, y=X, count=COUNT):
    return check(Model(function), (X, y, count), dynamic_shapes={"x": {0: n}, "y": {0: m or n}, "n": None})


def at_most_three(x, y, count):
    torch._check(count < 4)
    torch._check(count >= x.shape[0])
    return x * count + y


def at_least_two(x, y, count):
    kept = x.nonzero().squeeze(1)
    assert kept.shape[0] >= 2, "two rows are needed"
    return x[kept] * count + y.sum()


def a_shorter_one(x, y, count):
    torch._check(count < x.shape[0])
    torch._check(count > y.shape[0])
    return x * count, y


@pytest.mark.parametrize(
    ("function", "required", "witness", "line"),
    [
        (at_most_three, "x.shape[0] <= 3", 4, "torch._check(count >= x.shape[0])"),
        (at_least_two, "x.shape[0] >= 2", 1, 'assert kept.shape[0] >= 2, "two rows are needed"'),
    ],
)
def test_sizes_at_which_no_data_pass_are_refuted(function, required, witness, line):
    report = verdict(function, Dim("n", min=1, max=16))
    (found,) = report.diagnostics
    assert (report.status, found.id, found.message) == ("refuted", "bound", f"`{required}` must hold")
    assert found.witness == {"x.shape[0]": witness}
    assert line in str(report)
    assert "no data pass there" in " ".join(str(report).split())
    for count in range(-9, 20):  # eager raises there for every number, and not beside it
        at, beside = ((X[:1].expand(size),) * 2 for size in (witness, 3))
        assert outcome(Model(function), (*at, torch.tensor(count))) == RAISES
        assert count != 3 or outcome(Model(function), (*beside, torch.tensor(count))) != RAISES


@pytest.mark.thorough
def test_the_help_that_is_given_makes_the_export_succeed():
    report = verdict(at_least_two, Dim("n", min=1, max=16))
    assert report.diagnostics[0].help[0].text == 'n = Dim("n", min=2, max=16)'
    assert verdict(at_least_two, Dim("n", min=2, max=16)).status == "proved"


def test_a_relation_of_two_sizes_is_said_as_one():
    report = verdict(a_shorter_one, Dim("n", min=1, max=16), Dim("m", min=1, max=16), X[:1], torch.tensor(2))
    (found,) = report.diagnostics
    assert found.message == "`y.shape[0] + 2 <= x.shape[0]` must hold"
    assert found.witness == {"x.shape[0]": 1, "y.shape[0]": 1}


@pytest.mark.thorough
@pytest.mark.parametrize("n", [Dim.AUTO, Dim("n")])
def test_inferred_sizes_are_given_up(n):
    report = verdict(at_least_two, n, Dim.AUTO)
    assert report.status == "proved", str(report)
    assert "inferred and enforced at run time: x.shape[0] >= 2" in str(report)
    run = report.program.module()
    for x in (torch.ones(1), torch.ones(2), torch.tensor([1.0, 0, 0]), torch.ones(9)):
        assert agree(Model(at_least_two), run, (x, X, COUNT))


def test_checks_that_some_data_pass_everywhere_refute_nothing():
    def within(x, y, count):
        torch._check(count >= 0)
        torch._check(count <= x.shape[0])
        return x[:count], y

    assert verdict(within, Dim("n", min=0, max=16)).status == "proved"


def test_several_programs_are_refuted_where_no_data_pass_in_one_of_them():
    def only_long_ones(x, _, count):
        if x.shape[0] <= 8:
            return x + count
        torch._check(count < 12)
        torch._check(count >= x.shape[0])
        return x * count

    report = check(
        Model(only_long_ones),
        (torch.ones(9), X, torch.tensor(10)),
        dynamic_shapes={"x": {0: Dim("n", min=1, max=16)}, "y": None, "n": None},
        branches="split",
    )
    (found,) = report.diagnostics
    assert (report.status, found.message, found.witness) == (
        "refuted",
        "`x.shape[0] <= 11` must hold",
        {"x.shape[0]": 12},
    )
    assert "no data pass there" in " ".join(str(report).split())


class Scatters(torch.nn.Module):
    """As a multimodal model: as many rows of an image as the text has places for them."""

    def forward(self, text, image):
        places = text[text > 0]
        torch._check(places.shape[0] == image.shape[0], lambda: "not as many places as rows")
        return places + image


def test_a_number_from_data_between_two_sizes_relates_these():
    """The fault: `k <= b*s` was said as two lines round it, `k <= b + 116` and `k <= s + 90`."""
    sizes = {"b": Dim("b", min=1, max=4), "s": Dim("s", min=1, max=30), "k": Dim("k", min=2, max=120)}
    shapes = {"text": {0: sizes["b"], 1: sizes["s"]}, "image": {0: sizes["k"]}}
    report = check(Scatters(), (torch.ones(2, 6), torch.ones(12)), dynamic_shapes=shapes)
    (found,) = report.diagnostics
    assert found.message == "`image.shape[0] <= text.shape[0]*text.shape[1]` must hold"
    assert [each.text for each in found.help] == ['constraints=["k <= b*s"]']
    under = check(Scatters(), (torch.ones(2, 6), torch.ones(12)), dynamic_shapes=shapes, constraints=("k <= b*s",))
    assert under.status == "proved", str(under)
