"""Sizes out of data at which eager and the program both raise are said, with the line; only where they are seen to."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

from shapeproof.export import check, load_report
from shapeproof.export.source.errors import is_stated

N = {0: Dim("n", min=1)}


def reported(mod):
    return check(mod, (torch.randn(6, 4),), dynamic_shapes=(N,))


class Detector(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.score = torch.nn.Linear(4, 1)

    def forward(self, x):
        keep = self.score(x).squeeze(-1).sigmoid() > 0.5
        boxes = x[keep]
        return boxes, boxes.min(0).values


class SmallestOfAll(torch.nn.Module):
    def forward(self, x):
        found = x.masked_select(x > 0.1)
        return found.max()


class InPairs(torch.nn.Module):
    def forward(self, x):
        found = x.masked_select(x > 0)
        return found.view(-1, 2)


class ByArgmax(torch.nn.Module):
    def forward(self, x):
        rows = x[x[:, 0] > 0]
        return rows.argmax(0)


class TheFirst(torch.nn.Module):
    def forward(self, x):
        rows = x[x[:, 0] > 0]
        return rows[0]


class ByNonzero(torch.nn.Module):
    def forward(self, x):
        rows = (x[:, 0] > 0).nonzero().squeeze(-1)
        return x[rows].amax(0)


class Nameless(torch.nn.Module):
    def forward(self, x):
        return x[x[:, 0] > 0].min(0).values


MODELS = [
    (Detector, "boxes.shape[0] == 0", "aten.min.dim", "min(): Expected reduction dim 0"),
    (SmallestOfAll, "found.shape[0] == 0", "aten.max.default", "max(): Expected reduction dim"),
    (InPairs, "found.shape[0] % 2 != 0", "aten.view.default", "is invalid for input of size"),
    (ByArgmax, "rows.shape[0] == 0", "aten.argmax.default", "argmax(): Expected reduction dim 0"),
    (TheFirst, "rows.shape[0] == 0", None, "index 0 is out of bounds"),
    (ByNonzero, "rows.shape[0] == 0", "aten.amax.default", "amax(): Expected reduction dim"),
    (Nameless, "u0 == 0", "aten.min.dim", "min(): Expected reduction dim 0"),
]


@pytest.mark.parametrize(("model", "condition", "operator", "said"), MODELS, ids=[each[0].__name__ for each in MODELS])
def test_what_both_raise_is_said_with_its_line(model, condition, operator, said, tmp_path):
    report = reported(model())
    assert report.status == "proved"
    (failure,) = report.shared_failures
    assert (failure.condition, failure.operator) == (condition, operator)
    assert failure.file == __file__
    assert failure.line == max(line for _, _, line in model.forward.__code__.co_lines() if line)
    assert said in failure.error
    assert str(failure) in report.notes
    assert f"both raise where {condition}" in " ".join(str(report).split())
    report.save(tmp_path / "report.json")
    assert load_report(tmp_path / "report.json").shared_failures == report.shared_failures


def test_it_is_so():
    program = reported(Detector()).program.module()
    nothing = torch.full((3, 4), float("nan"))
    for run in (Detector(), program):
        with pytest.raises(IndexError, match="Expected reduction dim"):
            run(nothing)


def test_a_size_without_a_name_is_said_with_the_line_that_takes_it():
    (failure,) = reported(Nameless()).shared_failures
    assert f"u0 == 0 (u0 is taken from data at {failure.source.split(' at ')[1]}" in str(failure)
    assert failure.source.endswith(f"test_shared_failures.py:{failure.line})")


class Checks(torch.nn.Module):
    def forward(self, x):
        rows = x[x[:, 0] > 0]
        torch._check(rows.shape[0] > 0)
        return rows.min(0).values


class Adds(torch.nn.Module):
    def forward(self, x):
        return x[x[:, 0] > 0].sum(0), x.min(0).values


class AddsOne(torch.nn.Module):
    def forward(self, x):
        return torch.cat([x[x[:, 0] > 0], x]).min(0).values


@pytest.mark.parametrize("model", [Checks, Adds, AddsOne])
def test_what_the_model_itself_raises_or_never_fails_is_not_said(model):
    report = reported(model())
    assert (report.status, report.shared_failures) == ("proved", ()), str(report)


def stated_by_raise():
    raise IndexError


def stated_by_assert():
    raise AssertionError


def stated_by_check():
    torch._check(cond=False)


def not_stated():
    torch.ones(0).min()


@pytest.mark.parametrize(
    ("run", "stated"), [(stated_by_raise, True), (stated_by_assert, True), (stated_by_check, True), (not_stated, False)]
)
def test_what_is_stated_is_told_from_what_an_operator_raises(run, stated):
    with pytest.raises((IndexError, AssertionError, RuntimeError)) as caught:
        run()
    assert is_stated(caught.value) is stated
