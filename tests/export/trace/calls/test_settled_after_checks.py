"""What an operator asks after its last check on data is settled where it is asked; what it asks before is not."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

from shapeproof.export import check
from tests.agreement import agree

ROWS = Dim("rows", min=1, max=6)
LIBRARY = torch.library.Library("shapeproof_settled", "DEF")
OPS = torch.ops.shapeproof_settled


class Experts(torch.nn.Module):
    """Sends each row to the expert that scores it best, expert by expert."""

    def __init__(self, experts: int, layers: int) -> None:
        super().__init__()
        self.score, self.layers = torch.nn.Linear(4, experts), layers
        self.weight = torch.nn.Parameter(torch.randn(experts, 4, 4))

    def forward(self, x):
        for _ in range(self.layers):
            best = self.score(x).argmax(1)
            counts = torch.nn.functional.one_hot(best, len(self.weight)).sum(0).tolist()
            order = best.argsort()
            parts = x[order].split(counts)
            done = torch.cat([torch.nn.functional.linear(*each) for each in zip(parts, self.weight, strict=True)])
            x = torch.zeros_like(x).index_add(0, order, done)
        return x


@pytest.mark.parametrize(("experts", "layers"), [(2, 1), (4, 2)])
def test_a_split_by_counts_from_data_asks_for_no_trace_for_each_count_of_0_and_1(experts, layers):
    model = Experts(experts, layers)
    report = check(model, (torch.randn(5, 4),), dynamic_shapes=({0: ROWS},))
    assert report.status == "proved", str(report)
    assert "1 region, 1 trace" in str(report)
    program = report.program.module()
    for rows in (1, 2, 6):
        assert agree(model, program, (torch.randn(rows, 4),))
        assert agree(model, program, (torch.ones(rows, 4),))


def define(name, taken):
    """An operator that takes `taken(x, n)` rows."""
    LIBRARY.define(f"{name}(Tensor x, SymInt n) -> Tensor")
    LIBRARY.impl(name, lambda x, n: x.new_zeros(taken(x, n), 2), "CPU")
    LIBRARY.impl(name, lambda x, n: x.new_empty(taken(x, n), 2), "Meta")


def checked_unless_three(x, n):
    if n != 3:
        torch._check(n <= x.shape[0])
    return x.shape[0]


def longer_if_three(x, n):
    torch._check(n <= x.shape[0])
    return x.shape[0] + 1 if n == 3 else x.shape[0]


define("before", checked_unless_three)
define("after", longer_if_three)


class Called(torch.nn.Module):
    def __init__(self, operator) -> None:
        super().__init__()
        self.operator = operator

    def forward(self, x, n):
        return self.operator(x, n.item())


@pytest.mark.parametrize("name", ["before", "after"])
@pytest.mark.parametrize("seen", [2, 3])
def test_a_question_that_decides_on_a_check_or_a_size_is_not_settled(name, seen):
    model = Called(getattr(OPS, name))
    report = check(model, (torch.randn(4, 2), torch.tensor(seen)), dynamic_shapes=({0: ROWS}, None))
    if report.status == "refuted":
        return
    program = report.program.module()
    for rows in (1, 2, 3, 5):
        for n in (-1, 0, 1, 2, 3, 4):
            inputs = torch.randn(rows, 2), torch.tensor(n)
            assert report.status == "undecided" or agree(model, program, inputs), (rows, n, str(report))
