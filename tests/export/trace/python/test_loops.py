"""A loop over a size is one program where its steps are one body, and never a wrong one where they are not."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.export import Dim
from torch.nn import functional

from shapeproof.export import check
from shapeproof.export.trace.python import loops
from tests.agreement import agree


class Model(torch.nn.Module):
    """A model with parts of each kind; `counted` is what a step could leave behind."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.gru = torch.nn.GRUCell(4, 4)
        self.lstm = torch.nn.LSTMCell(4, 4)
        self.norm = torch.nn.BatchNorm1d(4)
        self.table = torch.nn.Parameter(torch.rand(4, 4))
        self.counted = [0]
        self.taken = 0
        self.last = torch.zeros(4)


class Recurrent(Model):
    def forward(self, x):
        h = torch.zeros(x.shape[0], 4)
        outs = []
        for i in range(x.shape[1]):
            h = self.gru(x[:, i], h)
            outs.append(h)
        return torch.stack(outs, dim=1), h


class TwoStates(Model):
    def forward(self, x):
        b, n, _ = x.shape
        h, c = x.new_zeros(b, 4), x.new_zeros(b, 4)
        for t in range(n):
            h, c = self.lstm(x[:, t], (h, c))
        return h, c


class Selective(Model):
    """The scan of a state space model."""

    def forward(self, x):
        decay = torch.exp(-functional.softplus(x @ self.table))
        h = torch.zeros(x.shape[0], 4)
        ys = []
        for t in range(x.shape[1]):
            h = decay[:, t] * h + x[:, t, :]
            ys.append((h * x[:, t]).sum(-1, keepdim=True))
        return torch.cat(ys, dim=1)


class FromTheSecondRow(Model):
    """The forward pass of a conditional random field."""

    def forward(self, x):
        score = x[:, 0]
        for i in range(1, x.shape[1]):
            score = torch.logsumexp(score.unsqueeze(2) + self.table + x[:, i].unsqueeze(1), 1)
        return score.logsumexp(1)


class Stacked(Model):
    def forward(self, x):
        for _ in range(2):
            h = torch.zeros(x.shape[0], 4)
            outs = []
            for i in range(x.shape[1]):
                h = self.gru(x[:, i], h)
                outs.append(h)
            x = torch.stack(outs, 1)
        return x


class OfNoState(Model):
    def forward(self, x):
        outs = []
        for i in range(x.shape[-1]):
            row = functional.relu(x[..., i])
            outs.append(row)
        return torch.stack(outs, -1)


class Filling(Model):
    def forward(self, x):
        y = torch.zeros_like(x)
        h = x.sum(1)
        for i in range(x.shape[1]):
            h = torch.tanh(h + x[:, i])
            y[:, i] = h
        return y


class AddingInPlace(Model):
    def forward(self, x):
        h = torch.zeros(x.shape[0], 4)
        begun = h
        for i in range(x.shape[1]):
            h += x[:, i]
        return h, begun


class FromANumber(Model):
    def forward(self, x):
        total = 0
        for i in range(x.shape[1]):
            total = total + x[:, i]
        return total


class Neighbours(Model):
    def forward(self, x):
        h = torch.zeros(x.shape[0], 4)
        for i in range(x.shape[1] - 1):
            h = h * 0.5 + (x[:, i + 1] - x[:, i]).abs()
        return h


class Swapping(Model):
    def forward(self, x):
        a, b = torch.zeros(x.shape[0], 4), torch.ones(x.shape[0], 4)
        for i in range(x.shape[1]):
            a, b = b, a + x[:, i]
        return a, b


class OfNoRow(Model):
    def forward(self, x):
        h = x.sum(1)
        for _ in range(x.shape[1]):
            h = torch.tanh(h @ self.table)
        return h


class OfTheLastStep(Model):
    def forward(self, x):
        t = torch.zeros(x.shape[0], 4)
        for i in range(x.shape[1]):
            t = x[:, i] * 2
        return t


ONE_BODY = [
    *(Recurrent, TwoStates, Selective, FromTheSecondRow, Stacked, Filling, AddingInPlace),
    *(FromANumber, Neighbours, Swapping, OfNoRow, OfTheLastStep),
]


class ByTheStep(Model):
    def forward(self, x):
        h = torch.zeros(x.shape[0], 4)
        for i in range(x.shape[1]):
            h = h + x[:, i] * i
        return h


class OfTheStepBefore(Model):
    def forward(self, x):
        h = torch.zeros(x.shape[0], 4)
        for i in range(x.shape[1]):
            h = h * 0.5 + x[:, i - 1]
        return h


class ReadAfterwards(Model):
    def forward(self, x):
        h = torch.zeros(x.shape[0], 4)
        for i in range(x.shape[1]):
            h = h + x[:, i]
        return h * i


class InReverse(Model):
    def forward(self, x):
        h = torch.zeros(x.shape[0], 4)
        outs = []
        for i in range(x.shape[1]):
            h = h + x[:, i]
            outs.append(h)
        return torch.stack(outs[::-1], 1)


class OfItsOwnRows(Model):
    def forward(self, x):
        outs = [torch.zeros(x.shape[0], 4)]
        for i in range(x.shape[1]):
            outs.append(outs[-1] + x[:, i])
        return torch.stack(outs, 1)


class ByAClosure(Model):
    def forward(self, x):
        h = torch.zeros(x.shape[0], 4)
        doubled = lambda: h * 2  # noqa: E731 - a model may
        for i in range(x.shape[1]):
            h = doubled() + x[:, i]
        return h


class FillingWhatItReads(Model):
    def forward(self, x):
        x = x.clone()
        y = x.transpose(0, 1)
        h = torch.zeros(x.shape[0], 4)
        for i in range(x.shape[1]):
            h = h + x[:, i] + 1
            y[i] = h
        return y, h


class AddingToWhatItReads(Model):
    def forward(self, x):
        x = x.clone()
        h = x[:, 0]
        for i in range(x.shape[1]):
            h += x[:, i]
        return x


class AddingAcross(Model):
    def forward(self, x):
        a, b = torch.zeros(x.shape[0], 4), torch.ones(x.shape[0], 4)
        first = a
        for i in range(x.shape[1]):
            b += x[:, i]
            a, b = b, a
        return a, b, first


class Counting(Model):
    def bumped(self, h):
        self.counted[0] += 1
        return h * self.counted[0]

    def forward(self, x):
        self.counted[0] = 0
        h = torch.zeros(x.shape[0], 4)
        for i in range(x.shape[1]):
            h = self.bumped(h) + x[:, i]
        return h


class CountingInAnAttribute(Model):
    def bumped(self, h):
        self.taken = self.taken + 1
        return h if self.taken < 20 else h * 2

    def forward(self, x):
        self.taken = 0
        h = torch.zeros(x.shape[0], 4)
        for i in range(x.shape[1]):
            h = self.bumped(h) + x[:, i]
        return h


class Appending(Model):
    def noted(self, h, kept):
        kept.append(h)
        return h if len(kept) < 20 else h * 2

    def forward(self, x):
        kept = []
        h = torch.zeros(x.shape[0], 4)
        for i in range(x.shape[1]):
            h = self.noted(h, kept) + x[:, i]
        return h


class AddingToAList(Model):
    def noted(self, h, kept):
        kept += [h]
        return h if len(kept) < 20 else h * 2

    def forward(self, x):
        kept = []
        h = torch.zeros(x.shape[0], 4)
        for i in range(x.shape[1]):
            h = self.noted(h, kept) + x[:, i]
        return h


class KeepingItsState(Model):
    def cell(self, row):
        self.last = self.last * 0.5 + row
        return self.last

    def forward(self, x):
        self.last = torch.zeros(x.shape[0], 4)
        outs = []
        for i in range(x.shape[1]):
            h = self.cell(x[:, i])
            outs.append(h)
        return torch.stack(outs, 1)


class Training(Model):
    def forward(self, x):
        self.norm.train()
        h = torch.zeros(x.shape[0], 4)
        for i in range(x.shape[1]):
            h = h + self.norm(x[:, i])
        return h


class Growing(Model):
    def forward(self, x):
        h = x[:, 0]
        for i in range(1, x.shape[1]):
            h = torch.cat([h, x[:, i]], -1)
        return h


class OfAnotherType(Model):
    def forward(self, x):
        h = torch.zeros(x.shape[0], 4, dtype=torch.long)
        for i in range(x.shape[1]):
            h = h + x[:, i]
        return h


class FromNothing(Model):
    """After one step it is a part of the input."""

    def forward(self, x):
        h = None
        for i in range(x.shape[1]):
            h = x[:, i] if h is None else h * 0.5 + x[:, i]
        return h


class ByData(Model):
    def forward(self, x):
        h = torch.zeros(x.shape[0], 4)
        for i in range(x.shape[1]):
            h = h + x[:, i] if bool((x[:, i] > 0).all()) else h
        return h


class Leaving(Model):
    def forward(self, x):
        h = torch.zeros(x.shape[0], 4)
        for i in range(x.shape[1]):
            if x.shape[1] > 3:
                break
            h = h + x[:, i]
        return h


NOT_ONE_BODY = [
    *(ByTheStep, OfTheStepBefore, ReadAfterwards, InReverse, OfItsOwnRows, ByAClosure, FillingWhatItReads),
    *(AddingToWhatItReads, AddingAcross, Counting, CountingInAnAttribute, Appending, AddingToAList, KeepingItsState),
    *(Training, Growing, OfAnotherType, FromNothing, ByData, Leaving),
]


def checked(model, least=1):
    shapes = {"x": {0: Dim("b", min=1, max=3), 1: Dim("n", min=least, max=24)}}
    return check(model, (torch.rand(2, 5, 4),), dynamic_shapes=shapes)


def is_scan(program):
    return any(node.target is torch.ops.higher_order.scan for node in program.graph.nodes)


def agrees(model, program, least=1):
    sizes = itertools.product(range(1, 4), (*range(least, 6), 24))
    return all(agree(model, program.module(), (torch.rand(b, n, 4),)) for b, n in sizes)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ONE_BODY)
def test_a_loop_whose_steps_are_one_body_is_one_program(kind):
    model = kind().eval()
    report = checked(model)
    assert report.status == "proved", str(report)
    assert is_scan(report.program)
    assert agrees(model, report.program)


def test_a_loop_of_no_state_over_the_last_dim():
    model = OfNoState().eval()
    shapes = {"x": {0: Dim("b", min=1, max=3), 2: Dim("n", min=1, max=9)}}
    report = check(model, (torch.rand(2, 4, 5),), dynamic_shapes=shapes)
    assert report.status == "proved", str(report)
    assert is_scan(report.program)
    sizes = itertools.product(range(1, 4), range(1, 10))
    assert all(agree(model, report.program.module(), (torch.rand(b, 4, n),)) for b, n in sizes)
    assert any("one operator, `scan`" in note for note in report.notes)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", [FromANumber, Neighbours, Swapping, OfTheLastStep, AddingInPlace])
def test_a_loop_may_have_no_step(kind):
    report = checked(kind().eval(), least=0)
    if kind is FromANumber:  # it returns the number then
        assert report.status == "refuted"
        return
    assert report.status == "proved", str(report)
    assert agrees(kind().eval(), report.program, least=0)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", NOT_ONE_BODY)
def test_other_loops_are_never_taken_for_one_body(kind):
    """The law: what is proved does what eager does. None of these is proved; each is refuted by its number of steps."""
    report = checked(kind())
    assert report.status != "proved" or agrees(kind(), report.program)
    assert report.program is None or not is_scan(report.program)


@pytest.mark.thorough
def test_a_program_with_such_a_loop_is_saved_and_taken_apart(tmp_path):
    model = Recurrent().eval()
    program = checked(model).program
    torch.export.save(program, tmp_path / "loop.pt2")
    for form in (torch.export.load(tmp_path / "loop.pt2"), program.run_decompositions()):
        assert agrees(model, form)


def test_a_function_is_written_over_only_where_a_loop_can_be():
    assert [kind for kind in (*ONE_BODY, OfNoState) if loops.rolled(kind.forward) is None] == []
    kept = {kind for kind in NOT_ONE_BODY if loops.rolled(kind.forward) is None}
    assert {ByTheStep, ReadAfterwards, InReverse, OfItsOwnRows, ByAClosure, Leaving} <= kept


@pytest.mark.parametrize("kind", ONE_BODY)
def test_with_a_plain_number_a_function_written_over_does_the_same(kind):
    model, x = kind().eval(), torch.rand(2, 5, 4)
    names = {loops.CAN_ROLL: lambda _: False, loops.JOIN: lambda join, rows, *more, **by: join(rows, *more, **by)}
    forward = type(kind.forward)(loops.rolled(kind.forward), {**kind.forward.__globals__, **names})
    torch.testing.assert_close(forward(model, x.clone()), model(x.clone()), rtol=0, atol=0)
