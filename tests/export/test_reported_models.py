"""Models as users of torch.export report them, each for a fault of the exporter that it has shown."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

from shapeproof.constraints.errors import UsageError
from shapeproof.export import check, export
from tests.agreement import agree


class Mapped(torch.nn.Module):
    """Inside torch.vmap a tensor has no storage of its own."""

    def forward(self, x, y):
        return torch.vmap(torch.dot)(x, y)


class Gradient(torch.nn.Module):
    def forward(self, x):
        return torch.func.grad(lambda z: (z**3).sum())(x)


class Chosen(torch.nn.Module):
    """Both branches give fresh tensors, whose strides torch notes as products with `Max(1, t)` in them."""

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x * 2, (x,))


def serves(mod, program, probes):
    return all(agree(mod, program.module(), probe) for probe in probes)


def test_tensors_without_a_storage_of_their_own_are_traced():
    b = Dim("b", min=1, max=8)
    program = export(Mapped(), (torch.randn(3, 4), torch.randn(3, 4)), dynamic_shapes=({0: b}, {0: b}))
    assert program.report.status == "proved"
    assert serves(Mapped(), program, [(torch.randn(n, 4), torch.randn(n, 4)) for n in (1, 2, 8)])


def test_what_torch_takes_for_a_constant_though_the_model_computes_it_is_refused_in_a_sentence():
    with pytest.raises(UsageError, match=r"torch.export cannot follow the model: `\w+`, which it computes"):
        check(Gradient(), (torch.randn(3, 4),), dynamic_shapes=({0: Dim("b", min=1, max=8)},))


@pytest.mark.parametrize("lowest", [1, 2])
def test_the_branches_of_cond_may_give_fresh_tensors(lowest):
    shapes = ({0: Dim("b", min=lowest), 1: Dim("t", min=lowest)},)
    program = export(Chosen(), (torch.randn(3, 5, 4),), dynamic_shapes=shapes)
    assert program.report.status == "proved"
    sizes = [(lowest, lowest), (3, lowest), (lowest, 7)]
    assert serves(Chosen(), program, [(sign * torch.ones(*each, 4),) for each in sizes for sign in (1, -1)])


def test_where_cond_cannot_be_traced_for_sizes_from_0_on_it_is_for_sizes_from_1_on():
    report = check(Chosen(), (torch.randn(3, 5, 4),), dynamic_shapes=({0: Dim("b"), 1: Dim("t")},))
    assert report.status == "proved"
    assert {"x.shape[0] >= 1", "x.shape[1] >= 1"} <= set(report.domain)
    assert serves(Chosen(), report.program, [(torch.ones(*each, 4),) for each in [(1, 1), (1, 4), (3, 1)]])


class PadsWhereNeeded(torch.nn.Module):
    """To rows of eight; where that adds nothing the operator is skipped."""

    def forward(self, x):
        missing = (8 - x.shape[0] % 8) % 8
        if missing > 0:
            x = torch.nn.functional.pad(x, (0, missing))
        return self.used(x)

    def used(self, x):
        return x.reshape(-1, 8).sum(1)


class PadsAndWrites(PadsWhereNeeded):
    """Where nothing is added it is the input that is written into."""

    def used(self, x):
        return x.add_(1).sum()


class PadsAndReturns(PadsWhereNeeded):
    """Where nothing is added it is the input that is returned."""

    def used(self, x):
        return x


def padded(model):
    return check(model, (torch.randn(12),), dynamic_shapes=({0: Dim("n", min=1, max=24)},))


def test_a_copy_that_adds_nothing_is_no_operation():
    report = padded(PadsWhereNeeded())
    assert report.status == "proved"
    assert serves(PadsWhereNeeded(), report.program, [(torch.randn(n),) for n in (1, 7, 8, 9, 24)])


@pytest.mark.parametrize("model", [PadsAndWrites, PadsAndReturns])
def test_a_copy_that_is_written_into_or_returned_is_one(model):
    assert padded(model()).status in {"refuted", "undecided"}
