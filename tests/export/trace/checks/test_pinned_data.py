"""A check on data that fails at the sizes of a trace's point alone says nothing of the other sizes.

The fault: two checks pinned a number from data to one value, which was then compared with a size. The second check was
called made by the program, because the program raised at the one size at which no data pass.
"""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.export import Dim

from shapeproof.export import check
from tests.agreement import agree


def two_checks(a, low, high, _):
    if a < low:
        raise ValueError("too small")
    if a >= high:
        raise ValueError("too large")


def one_check(a, low, high, _):
    if a >= low and a < high:
        return
    raise ValueError("elsewhere")


def negated(a, low, high, _):
    if not (a >= low and a < high):
        raise ValueError("elsewhere")


def asserted(a, low, high, _):
    assert a >= low
    assert a < high


def only_where_large(a, low, _, rows):
    if a >= low:
        torch._check(a <= rows)


PINS = {each.__name__: each for each in (two_checks, one_check, negated, asserted, only_where_large)}
COMPARED = {
    "check": lambda x, a: torch._check(a <= x.shape[0]),
    "narrow": lambda x, a: x.narrow(0, 0, a),
    "slice": lambda x, a: x[:a],
    "nothing": lambda *_: None,
}


@pytest.mark.parametrize("low", [1, 2, 3])
@pytest.mark.parametrize("compared", COMPARED)
@pytest.mark.parametrize("pinned", PINS)
def test_a_pinned_number_from_data_is_checked_at_each_size(pinned, compared, low):
    """Law: what is proved raises where eager raises, at each size and number."""

    class Model(torch.nn.Module):
        def forward(self, x, v):
            a = v[0].item()
            PINS[pinned](a, low, low + 1, x.shape[0])
            COMPARED[compared](x, a)
            return x.sum()

    given = torch.ones(4, 2), torch.tensor([low, 2])
    report = check(Model(), given, dynamic_shapes={"x": {0: Dim("n", min=2, max=4)}, "v": None})
    if report.status != "proved":
        assert report.status in {"refuted", "undecided"}
        return
    run = report.program.module()
    for rows, number in itertools.product(range(2, 5), range(-1, 7)):
        assert agree(Model(), run, (torch.ones(rows, 2), torch.tensor([number, 2]))), (rows, number)
