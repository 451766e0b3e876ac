"""The rows of a tensor that are joined again are one program, and never a wrong one where they are used otherwise."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.export import Dim

from shapeproof.export import check
from shapeproof.export.trace.python.one_body import NotOneBody
from shapeproof.export.trace.python.rolled import Parted
from tests.agreement import agree


class Of(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def kept_in_an_object(x):
    held = torch.nn.Identity()
    held.rows = list(x * 2)
    return torch.cat(held.rows, dim=0)


def written_before_the_join(x):
    y = x * 2
    rows = y.unbind()
    y.add_(1)
    return torch.stack(rows), y


def written_after_the_join(x):
    y = x * 2
    joined = torch.stack(list(y))
    joined.add_(1)
    return joined, y


def if_there_are_any(x):
    rows = list(x)
    return torch.cat(rows) if rows else x


def of_matrices(x):
    return torch.cat(list(x[:, :, None].expand(-1, -1, 3).contiguous()), dim=-1)


def behind_a_handler(x):
    rows = list(x)
    try:
        return torch.cat([row + 1 for row in rows])
    except Exception:  # noqa: BLE001 - as a model does
        return x


ONE = [
    lambda x: torch.cat(list(x), 0),
    lambda x: torch.cat(x[:, None].expand(-1, 2, -1).contiguous().unbind(0)) + 1,
    lambda x: torch.stack(x.unbind()),
    lambda x: torch.stack(list(x), 1),
    *(kept_in_an_object, written_before_the_join, written_after_the_join, if_there_are_any, of_matrices),
]
OTHERS = [
    lambda x: x * len(list(x)),
    lambda x: torch.stack([row * 2 for row in list(x)]),
    lambda x: torch.cat([x[0], *list(x)]),
    lambda x: torch.cat([x[0]] + list(x)),  # noqa: RUF005 - a sum of lists
    lambda x: list(x)[0] * 2,  # noqa: RUF015 - code whose `list` is replaced
    lambda x: list(x),  # noqa: PLW0108 - the same
    lambda x: torch.cat(list(x)) + (type(list(x)) is list),
    lambda x: torch.cat(list((x * 2).t())),
    lambda x: torch.stack(x.unbind(1), 1),
    lambda x: torch.block_diag(*x.unbind()),
    lambda x: torch.nn.utils.rnn.pad_sequence(list(x)),
    behind_a_handler,
]


def checked(function):
    shapes = {"x": {0: Dim("n", min=1, max=6), 1: Dim("m", min=1, max=3)}}
    return check(Of(function), (torch.rand(4, 3),), dynamic_shapes=shapes)


def agrees(function, program):
    sizes = itertools.product(range(1, 7), range(1, 4))
    return all(agree(Of(function), program.module(), (torch.rand(n, m),)) for n, m in sizes)


@pytest.mark.thorough
@pytest.mark.parametrize("at", range(len(ONE)))
def test_rows_that_are_joined_again_are_one_program(at):
    report = checked(ONE[at])
    assert (report.status, report.statistics["regions"]) == ("proved", 1), str(report)
    assert agrees(ONE[at], report.program)


@pytest.mark.thorough
@pytest.mark.parametrize("at", range(len(OTHERS)))
def test_rows_that_are_used_otherwise_are_not_claimed_wrongly(at):
    report = checked(OTHERS[at])
    assert report.status != "proved" or agrees(OTHERS[at], report.program)


def test_a_list_of_rows_is_joined_at_any_number_of_them():
    report = checked(ONE[0])
    assert (report.status, report.statistics["traces"]) == ("proved", 2), str(report)
    assert agrees(ONE[0], report.program)


def appended(x):
    rows = []
    for row in x:
        rows.append(row * 2)  # noqa: PERF401 - a loop is what is tried
    return torch.stack(rows, 1)


@pytest.mark.parametrize("function", [lambda x: torch.stack(list(x), 1), appended])
def test_rows_lie_as_torch_joins_them_where_there_is_one(function):
    """The fault: `contiguous()` leaves a tensor whose one row lies otherwise than in what torch stacks."""
    program = checked(function).program.module()
    inputs = [torch.rand(n, m) for n, m in itertools.product((1, 2, 6), (1, 2, 3))]
    assert [program(x).stride() for x in inputs] == [function(x).stride() for x in inputs]


@pytest.mark.parametrize(
    "use",
    [
        *(len, iter, list, tuple, sorted, reversed, repr, sum),
        *(lambda rows: rows[0], lambda rows: rows + [1], lambda rows: [1] + rows, lambda rows: rows * 2),  # noqa: RUF005
        *(lambda rows: rows.append(1), lambda rows: 1 in rows, lambda rows: rows == [], lambda rows: rows.copy()),
        *([].extend, lambda rows: {0: rows} | dict(enumerate(rows)), torch.hstack, torch.atleast_1d),
    ],
)
def test_nothing_else_is_done_with_rows(use):
    with pytest.raises(NotOneBody):
        use(Parted(torch.ones(3, 2)))
