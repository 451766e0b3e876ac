"""Uninitialized memory in a result: eager itself gives no certain elements there, and the program is not blamed."""

import pytest
import torch
from torch.export import Dim

from shapeproof.export import check
from tests.calling import Calls


def written(made, write):
    def model(x):
        y = made(x)
        write(y, x)
        return y * 2

    return model


def rows(x):
    return torch.empty(x.shape[0], 4)


def more_rows(x):
    return torch.empty(x.shape[0] + 1, 4)


def write_a_part(y, x):
    y[: x.shape[0]] = x


def write_all(y, x):
    y[: x.shape[0]] = x
    y[x.shape[0]] = 1


REACHING = {
    "empty": lambda x: torch.cat((rows(x), x)),
    "empty_like": lambda x: torch.empty_like(x) + x,
    "new_empty": lambda x: x.new_empty(x.shape[0]) * 2,
    "empty_strided": lambda x: torch.empty_strided((x.shape[0], 4), (4, 1)),
    "whole numbers": lambda x: torch.empty(x.shape[0], dtype=torch.int64),
    "an order": lambda x: torch.empty(x.shape[0]).argsort(),
    "a part": written(more_rows, write_a_part),
    "an input": lambda x: x.add_(torch.empty_like(x)),
}
OVERWRITTEN = {
    "copy_": written(rows, lambda y, x: y.copy_(x)),
    "fill_": written(torch.empty_like, lambda y, _: y.fill_(3)),
    "zero_": written(lambda x: x.new_empty(x.shape), lambda y, x: y.zero_().add_(x)),
    "out": lambda x: torch.add(x, 1, out=torch.empty_like(x)),
    "all parts": written(more_rows, write_all),
    "its size": lambda x: torch.zeros_like(rows(x)),
    "no row": lambda x: torch.cat((torch.empty(0, 4), x)),
}


def checked(function):
    return check(Calls(function), (torch.ones(3, 4),), dynamic_shapes=({0: Dim("n", min=2, max=9)},))


@pytest.mark.parametrize("name", REACHING)
def test_what_eager_does_not_determine_is_noted(name):
    report = checked(REACHING[name])
    assert (report.status, report.diagnostics) == ("proved", ()), str(report)
    assert ["uninitialized memory" in note for note in report.notes] == [True]


@pytest.mark.parametrize("name", OVERWRITTEN)
def test_of_what_is_overwritten_nothing_is_said(name):
    report = checked(OVERWRITTEN[name])
    assert (report.status, report.notes) == ("proved", ()), str(report)


def test_what_differs_beside_uninitialized_memory_is_refuted():
    report = checked(lambda x: torch.cat((rows(x), x * 100 if x.shape[0] == 2 else x)))
    assert (report.status, report.diagnostics[0].witness) == ("refuted", {"x.shape[0]": 2}), str(report)


def test_memory_that_the_program_alone_leaves_uninitialized_is_refuted():
    def model(x):
        return torch.empty_like(x) if torch.compiler.is_exporting() else x + 5

    assert checked(model).status == "refuted"
