"""Models with a loop over a size, whose steps are not one body."""

from __future__ import annotations

import collections

import torch
from torch.nn import functional

from tests.loop_models import Model


class Swapping(Model):
    def forward(self, x):
        a, b = torch.zeros(x.shape[0], 4), torch.ones(x.shape[0], 4)
        for i in range(x.shape[1]):
            a, b = b, a + x[:, i]
        return a, b


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


class ReadAsAListByAClosure(Model):
    """Its list has the name of the joined rows too, and a function reads what is under that name."""

    def forward(self, x):
        rows = []
        count = lambda: len(rows)  # noqa: E731 - a model may
        for i in range(x.shape[1]):
            rows.append(x[:, i] * 2)  # noqa: PERF401 - a loop is what is tried
        many = count()
        rows = torch.stack(rows, 1)
        return rows * many * count()


class ReadWhereJoiningFails(Model):
    """What is read then is the list."""

    def forward(self, x):
        rows = []
        for i in range(x.shape[1]):
            rows.append(x[:, i] * 2)  # noqa: PERF401 - a loop is what is tried
        try:
            rows = torch.stack(rows, 7)
        except IndexError:
            return torch.cat(rows, 1)
        return rows


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


class KeepingStatistics(Model):
    """The fault: an operator may write what its schema does not say."""

    def forward(self, x):
        h = torch.zeros(x.shape[0], 4)
        for i in range(x.shape[1]):
            h = h + functional.batch_norm(x[:, i], self.norm.running_mean, self.norm.running_var, training=True)
        return h


class Growing(Model):
    def forward(self, x):
        h = x[:, 0]
        for i in range(1, x.shape[1]):
            h = torch.cat([h, x[:, i]], -1)
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


class CountingByADescriptor(Model):
    """The fault: what Python does without a statement, and without a call that is told, was not seen."""

    def tick(self):
        object.__setattr__(self, "taken", self.taken + 1)
        return 2.0 if self.taken == 8 else 1.0

    def forward(self, x):
        object.__setattr__(self, "taken", 0)
        h = torch.zeros(x.shape[0], 4)
        for i in range(x.shape[1]):
            h = h * 0.3 + x[:, i] * self.tick()
        return h


class Rotating(Model):
    def forward(self, x):
        weights = collections.deque([1.0] * 6 + [3.0] + [1.0] * 60)
        h = torch.zeros(x.shape[0], 4)
        for i in range(x.shape[1]):
            h = h * 0.3 + x[:, i] * weights[0]
            _ = weights.rotate(-1)
        return h


class Consuming(Model):
    def forward(self, x):
        weights = iter([0.5] * 6 + [0.9] + [0.5] * 60)
        h = torch.zeros(x.shape[0], 4)
        for i in range(x.shape[1]):
            h = h * 0.3 + x[:, i] * sum(zip((0.0,), weights, strict=False), ())[1]
        return h


class LookingUp(Model):
    def forward(self, x):
        seen = collections.defaultdict(int)
        h = torch.zeros(x.shape[0], 4)
        for i in range(x.shape[1]):
            key = seen[len(seen)]
            h = h * 0.3 + x[:, i] * (2.0 if len(seen) == 8 else 1.0) + key
        return h


class Indexing(Model):
    """The fault: an object's own `__getitem__` was given what stands for the step."""

    class Rows:
        def __init__(self, rows):
            self.rows = rows

        def __getitem__(self, at):
            return self.rows[:, at] if isinstance(at, int) else self.rows[:, at] * 2

    def forward(self, x):
        rows, h = self.Rows(x), torch.zeros(x.shape[0], 4)
        for i in range(x.shape[1]):
            h = h * 0.3 + rows[i]
        return h


class OfTheLayout(Model):
    """The fault: a row lies in memory otherwise than the one that is recorded."""

    def forward(self, x):
        h = torch.zeros(x.shape[0], 4)
        for i in range(x.shape[1]):
            h = h * 0.3 + x[:, i] * (1 if x[:, i].is_contiguous() else 2)
        return h


class ResultsThatAreOne(Model):
    """The fault: two results of a loop were one tensor in eager, and a later write was lost in one of them."""

    def forward(self, x):
        h, g = torch.zeros(x.shape[0], 4), torch.zeros(x.shape[0], 4)
        for i in range(x.shape[1]):
            h = h * 0.5 + x[:, i]
            g = h
        h.add_(x.shape[1] - 5)
        return g * 1


class WrittenAfterNoStep(Model):
    """The fault: after no step the result is the tensor that the loop began with, and a later write changes both."""

    def forward(self, x):
        h = torch.zeros(x.shape[0], 4)
        begun = h
        for i in range(2, x.shape[1]):
            h = h * 0.5 + x[:, i]
        h += x.shape[1]
        return begun * 2


class TheSameNameAround(Model):
    """The fault: an outer loop assigns the same name, which is read after the inner one."""

    def forward(self, x):
        h = torch.zeros(x.shape[0], 4)
        for i in range(1):
            for i in range(x.shape[1]):  # noqa: PLW2901 - a model may
                h = h * 0.5 + x[:, i]
            h = h + x[:, i] * (x.shape[1] - 5)
        return h


class FailingOnZeros(Model):
    """The fault: where there is no step, the body is run on zeros, and what it computes there raised."""

    def forward(self, x):
        h = torch.zeros(4, 4)
        scale = torch.eye(4) * (x.shape[1] - 2)
        for i in range(3, x.shape[1]):
            h = h * 0.5 + torch.linalg.inv(scale + x[:, i].sum(0).diag() * 0)
        return h


class Detaching(Model):
    """The fault: scan gives each result a gradient if one has any."""

    def forward(self, x):
        h = torch.zeros(x.shape[0], 4)
        for i in range(x.shape[1]):
            h = h * 0.5 + (x[:, i] @ self.table).detach()
        return h


class AppendingWhatItAddsTo(Model):
    def forward(self, x):
        h, outs = torch.zeros(x.shape[0], 4), []
        for i in range(x.shape[1]):
            h += x[:, i]
            outs.append(h)
        return torch.stack(outs, 1)


NOT_ONE_BODY = [
    *(ReadAsAListByAClosure, ReadWhereJoiningFails),
    *(ByTheStep, OfTheStepBefore, ReadAfterwards, InReverse, OfItsOwnRows, ByAClosure, FillingWhatItReads),
    *(AddingToWhatItReads, AddingAcross, Counting, CountingInAnAttribute, AddingToAList, KeepingItsState),
    *(
        Training,
        KeepingStatistics,
        Growing,
        FromNothing,
        ByData,
        Leaving,
        Swapping,
        CountingByADescriptor,
        Rotating,
        Consuming,
    ),
    *(LookingUp, Indexing, OfTheLayout, ResultsThatAreOne, WrittenAfterNoStep, TheSameNameAround, FailingOnZeros),
    *(Detaching, AppendingWhatItAddsTo),
]
