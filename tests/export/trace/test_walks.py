# ruff: noqa: PERF401 - loops as models write them
"""A loop that walks over the rows of tensors is one program, as one over their numbers is, and never a wrong one."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

from shapeproof.export import check
from tests.agreement import agree
from tests.export.tracing import with_loops


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.calls = torch.nn.Linear(3, 3), 0


class Each(Model):
    def forward(self, x):
        outs = []
        for row in x:
            outs.append(self.linear(row) + 1)
        return torch.stack(outs)


class WithAState(Model):
    def forward(self, x):
        h, outs = torch.zeros(x.shape[1]), []
        for row in x * 2:
            h = h * 0.5 + row
            outs.append(h)
        return torch.stack(outs), h


class Numbered(Model):
    def forward(self, x):
        out = torch.zeros_like(x)
        for at, row in enumerate(x):
            out[at] = row * 2
        return out


class TwoAtATime(Model):
    def forward(self, x):
        outs = []
        for one, other in zip(x, x * 2):  # noqa: B905 - as models write it
            outs.append(one + other)
        return torch.stack(outs, 1)


class Both(Model):
    def forward(self, x):
        out = torch.zeros_like(x)
        for at, (one, other) in enumerate(zip(x, x * 3)):  # noqa: B905 - as models write it
            out[at] = one * other
        return out


class Summed(Model):
    def forward(self, x):
        total = 0
        for row in x:
            total = total + row
        return total


class AfterAnother(Model):
    def forward(self, x):
        first, second = [], []
        for row in x:
            first.append(row * 2)
        for row in torch.stack(first):
            second.append(row + 1)
        return torch.stack(second)


ONE = [Each, WithAState, Numbered, TwoAtATime, Both, Summed, AfterAnother]


class OverItsName(Model):
    def forward(self, x):
        outs = []
        for row in x:
            x = row * 1
            outs.append(x + row)
        return torch.stack(outs) + x


class ByTheNumber(Model):
    def forward(self, x):
        outs = []
        for at, row in enumerate(x):
            outs.append(row * at)
        return torch.stack(outs)


class OfUnequalNumbers(Model):
    def forward(self, x):
        outs = [x[0]]
        for one, other in zip(x, x[1:]):  # noqa: B905, RUF007 - as models write it
            outs.append(one + other)
        return torch.stack(outs)


class Breaking(Model):
    def forward(self, x):
        outs = []
        for row in x:
            if len(outs) > 2:
                break
            outs.append(row)
        return torch.stack(outs)


class TheLast(Model):
    def forward(self, x):
        for row in x:
            y = row * 2
        return y + row


class IntoTheRows(Model):
    def forward(self, x):
        y = x * 1
        for row in y:
            row.add_(1)
        return y


class CountingThem(Model):
    def forward(self, x):
        count = 0
        for _ in x:
            count += 1
        return x * count


class OverAList(Model):
    def forward(self, x):
        outs = []
        for each in [x, x * 2]:
            outs.append(each + 1)
        return torch.stack(outs)


class OverAGenerator(Model):
    def forward(self, x):
        outs = []
        for row in (each * 2 for each in x):
            outs.append(row + 1)
        return torch.stack(outs)


class Remembering(Model):
    def forward(self, x):
        outs = []
        for row in x:
            self.calls += 1
            outs.append(row * self.calls)
        return torch.stack(outs)


class WithAnElse(Model):
    def forward(self, x):
        outs = []
        for row in x:
            outs.append(row + 1)
        else:  # noqa: PLW0120 - a loop without `break` runs it
            outs.append(x[0])
        return torch.stack(outs)


class ByAFunctionOfItsOwn(Model):
    def forward(self, x, enumerate=lambda x: [(7, x)]):  # noqa: A002 - as a model may
        out = torch.zeros_like(x)
        for at, row in enumerate(x):
            out[at - 7] = row.sum(0)
        return out


OTHERS = [
    *(OverItsName, ByTheNumber, OfUnequalNumbers, Breaking, TheLast, IntoTheRows, CountingThem, OverAList),
    *(OverAGenerator, Remembering, WithAnElse, ByAFunctionOfItsOwn),
]


def checked(model):
    return check(model, (torch.rand(4, 3),), dynamic_shapes={"x": {0: Dim("n", min=1, max=6)}})


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ONE)
def test_a_walk_whose_steps_are_one_body_is_one_program(kind):
    model = kind()
    report = checked(model)
    assert report.status == "proved", str(report)
    assert any(node.target is torch.ops.higher_order.scan for node in report.program.graph.nodes)
    assert all(agree(model, report.program.module(), (torch.rand(n, 3),)) for n in range(1, 7))


@pytest.mark.thorough
@pytest.mark.parametrize("kind", OTHERS)
def test_any_other_walk_is_not_claimed_wrongly(kind):
    report = checked(kind())
    sizes = range(1, 7) if report.status == "proved" else ()
    assert all(agree(kind(), report.program.module(), (torch.rand(n, 3),)) for n in sizes)


def test_a_walk_is_written_over_only_where_a_loop_can_be():
    assert [kind for kind in ONE if with_loops(kind.forward) is None] == []
    kept = {kind for kind in OTHERS if with_loops(kind.forward) is None}
    assert {Breaking, Remembering, WithAnElse, ByAFunctionOfItsOwn, ByTheNumber} <= kept


def test_rows_are_walked_over_at_any_number_of_them():
    report = checked(Summed())
    assert (report.status, report.statistics["traces"]) == ("proved", 2), str(report)
