"""Cells that the model rejects: no trace is made to say so, and only sizes count as a reason."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.export import Dim

from shapeproof.export import check
from shapeproof.export.declare.inputs import declare
from shapeproof.export.explore.beside_eager.replay import Eager
from shapeproof.export.shim.modules import error_on_meta

EVEN_AND_ODD = {"x": {0: Dim("n", min=1, max=64)}}


class Meets(torch.nn.Module):
    """A model in layers; on one side of its branch, what follows raises for whatever size there is."""

    def __init__(self, odd):
        super().__init__()
        self.odd, self.weight = odd, torch.nn.Parameter(torch.randn(4, 4))

    def forward(self, x):
        y = x.view(-1, 2, 4).sum(1) if x.shape[0] % 2 == 0 else self.odd(x)
        y = y @ self.weight
        for _ in range(16):
            y = (y + 1).relu()
        return y


def test_a_cell_whose_sizes_the_model_rejects_is_refuted_without_a_trace():
    """The fault: Swin was traced in tens of cells, each of which only said again that eager raises there."""
    report = check(Meets(lambda x: x[:, :3]), (torch.randn(6, 4),), dynamic_shapes=EVEN_AND_ODD)
    assert (report.status, report.statistics["traces"]) == ("refuted", 2), str(report)  # a generic point, the example
    assert "fails at  x.shape[0] = 1 " in str(report)


def test_a_part_of_the_cell_that_eager_accepts_is_found_beside_one_that_it_rejects():
    """The smallest size of the cell raises, and a greater one does something else."""
    model = Meets(lambda x: x[:, :3] if x.shape[0] < 3 else x * 2)
    report = check(model, (torch.randn(6, 4),), dynamic_shapes=EVEN_AND_ODD)
    assert report.status == "refuted", str(report)
    narrowed = {"x": {0: 2 * Dim("half", min=1, max=32)}}
    assert check(model, (torch.randn(6, 4),), dynamic_shapes=narrowed).status == "proved"


class Mute(RuntimeError):
    def __str__(self):
        raise ValueError


class Mutely(torch.nn.Module):
    def forward(self, x):
        if x.shape[0] == 3:
            raise Mute
        return x * 2


def test_an_error_that_fails_to_print_its_message_is_told_by_its_kind():
    """The fault: its message was asked for where the report was written, and there was no verdict."""
    report = check(Mutely(), (torch.randn(6),), dynamic_shapes=EVEN_AND_ODD)
    assert report.status == "refuted", str(report)
    assert "fails at  x.shape[0] = 3   replayed; eager raises Mute\n" in str(report)


class Pairs(torch.nn.Module):
    """A large model that rejects an odd number of rows, and branches on the number of columns."""

    def __init__(self, few):
        super().__init__()
        self.few = few

    def forward(self, x, y):
        pairs = y.view(-1, 2).sum(1)
        x = self.few(x) if x.shape[0] <= 8 else x[8:].amax()
        for _ in range(130):
            x = (x + 1).relu()
        return x, pairs


def pairs(few):
    shapes = {"x": {0: Dim("n", min=1, max=64)}, "y": {0: Dim("m", min=1, max=64)}}
    return check(Pairs(few), (torch.rand(20), torch.rand(6)), dynamic_shapes=shapes)


def test_a_large_model_that_is_not_served_at_any_run_in_a_cell_is_not_traced_there():
    """The fault: a Swin of four stages was traced in such cells, and in the cells of these cells."""
    report = pairs(lambda x: x[1:].amax())  # both raise where n is 1
    assert (report.status, report.statistics["traces"]) == ("refuted", 1), str(report)
    differs = next(each for each in report.diagnostics if each.id == "other-program")
    assert differs.witness == {"x.shape[0]": 2, "y.shape[0]": 2}


class Calls(torch.nn.Module):
    def __init__(self, call):
        super().__init__()
        self.call, self.table = call, torch.nn.Parameter(torch.randn(4, 3))

    def forward(self, x):
        return self.call(x, self.table)


@pytest.mark.parametrize(
    "call",
    [
        lambda x, table: table[x.long() + 100],
        lambda x, table: x.nonzero() + table[:1, :1],
        lambda x, _: x * 2 if x.sum() > 1e9 else x.new_tensor([int(x.sum())] * -1).item(),
        lambda x, table: torch.linalg.cholesky(x[:1].t() @ x[:1] - 1e9 * torch.eye(x.shape[1])) + table.sum(),
    ],
    ids=["index", "size from data", "branch on data", "not positive"],
)
def test_data_are_no_reason_to_reject_sizes(call):
    eager = Eager(Calls(call), declare(Calls(call), (torch.randn(5, 4),), None, {"x": {0: Dim("n", max=9)}}))
    assert eager.rejection({"n": 5}) is None


def test_sizes_that_do_not_fit_are_rejected_without_data():
    model = Calls(lambda x, table: x @ table if x.shape[0] > 3 else x @ table.t())
    eager = Eager(model, declare(model, (torch.randn(5, 4),), None, {"x": {0: Dim("n", max=9)}}))
    assert [eager.rejection({"n": n}) is not None for n in (3, 4)] == [True, False]


def test_a_convolution_rejects_sizes():
    """The fault: its fake kernel calls C++, whose refusal was taken for one of the tracer's."""
    model = torch.nn.Conv1d(4, 4, 3)
    eager = Eager(model, declare(model, (torch.randn(1, 4, 20),), None, {"input": {2: Dim("n", max=64)}}))
    assert eager.rejection({"n": 2}).error is RuntimeError
    assert eager.rejection({"n": 3}) is None


class HoldsPlainly(torch.nn.Module):
    """Its table is neither a parameter nor a buffer, so that it stays where it is on another device."""

    def __init__(self):
        super().__init__()
        self.table = torch.ones(1, 4)

    def forward(self, x):
        return x + self.table if x.shape[0] > 3 else x + self.table[:, :3]


def test_a_device_is_no_reason_to_reject_sizes():
    model = HoldsPlainly()
    x = torch.ones(5, 4)
    assert error_on_meta(model, (x,), {}) is not None
    eager = Eager(model, declare(model, (x,), None, {"x": {0: Dim("n", max=9)}}))
    assert [eager.rejection({"n": n}) is not None for n in (3, 4)] == [True, False]


def test_a_module_that_was_run_on_meta_keeps_its_parameters():
    layer = torch.nn.BatchNorm1d(4)
    before = copy.deepcopy(layer.state_dict())
    assert error_on_meta(layer, (torch.ones(5, 4),), {}) is None
    assert all(torch.equal(value, before[name]) for name, value in layer.state_dict().items())
    assert layer.weight.device == torch.device("cpu")
