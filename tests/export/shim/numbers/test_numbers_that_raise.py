"""Operations on sizes that Python refuses for some numbers: eager raises there, whether or not the result is used.

A factor of `n*(n - 1)*(n - 6)` hides a result at the ends of the domain, so no corner shows what happens within.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch.export import Dim

from shapeproof.constraints.errors import UsageError
from shapeproof.export import check

ROWS = Dim("n", min=0, max=6)
EVERY = [torch.ones(n, 3) for n in range(7)]
RAISING = {
    "a floor division": lambda n, zero: n // zero,
    "a remainder": lambda n, zero: n % zero,
    "a division": lambda n, zero: n / zero,
    "divmod": lambda n, zero: divmod(n, zero)[1],
    "a shift to the left": lambda n, zero: 1 << (zero + 0 * n),
    "a shift to the right": lambda n, zero: 99 >> (zero + 0 * n),
    "a negative power": lambda n, zero: zero**-1 + n,
    "a negative power of a float": lambda n, zero: 0.0**zero + n,
    "a root": lambda n, zero: math.sqrt(zero) + n,
}


class Unused(torch.nn.Module):
    def __init__(self, operation):
        super().__init__()
        self.operation = operation

    def forward(self, x):
        n = x.shape[0]
        self.operation(n, (n - 2) * (n - 4))
        return x * 2


class Caught(torch.nn.Module):
    def __init__(self, operation):
        super().__init__()
        self.operation = operation

    def forward(self, x):
        n = x.shape[0]
        try:
            factor = 7 + n * (n - 1) * (n - 6) * self.operation(n, (n - 2) * (n - 4))
        except (ValueError, ZeroDivisionError):
            factor = 7
        return x * factor


class CaughtWhereItIsTraced(torch.nn.Module):
    """Raises at n = 3 alone, where the hidden part is 0 at the ends."""

    def forward(self, x):
        n = x.shape[0]
        try:
            factor = 7 + n * (n - 1) * (n - 2) * (n - 6) // (n - 3)
        except ZeroDivisionError:
            factor = 7
        return x * factor


def raises(mod, x):
    try:
        mod(x)
    except (ValueError, ZeroDivisionError):
        return True
    return False


@pytest.mark.parametrize("name", RAISING)
def test_a_result_that_nobody_uses(name):
    mod = Unused(RAISING[name])
    assert any(raises(mod, x) for x in EVERY)
    report = check(mod, (torch.ones(5, 3),), dynamic_shapes={"x": {0: ROWS}})
    assert report.status == "refuted"
    assert all(raises(mod, torch.ones(each.witness["x.shape[0]"], 3)) for each in report.diagnostics)


@pytest.mark.parametrize("example", [3, 5])
@pytest.mark.parametrize("name", RAISING)
def test_an_error_that_the_model_catches(name, example):
    report = check(Caught(RAISING[name]), (torch.ones(example, 3),), dynamic_shapes={"x": {0: ROWS}})
    assert report.status == "refuted"


@pytest.mark.parametrize("example", [3, 5])
def test_a_division_that_raises_at_the_point_of_the_trace(example):
    """The hint of the quotient raised before the divisor was asked about, and the program of the handler was proved."""
    report = check(CaughtWhereItIsTraced(), (torch.ones(example, 3),), dynamic_shapes={"x": {0: ROWS}})
    assert report.status == "refuted"


def test_numbers_that_are_never_refused():
    class Safe(torch.nn.Module):
        def forward(self, x):
            n = x.shape[0]
            return x * (8 // (n + 1) + (1 << n) + (n + 1) ** -1 + math.sqrt(n))

    report = check(Safe(), (torch.ones(5, 3),), dynamic_shapes={"x": {0: ROWS}})
    assert report.status == "proved"
    assert all(torch.equal(report.program.module()(x), Safe()(x)) for x in EVERY)


class Counted(torch.nn.Module):
    """A shift by a count of data, under a handler."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind

    def forward(self, x):
        try:
            return x * (1 << (int(x[0]) - 2))
        except self.kind:
            return x


def test_a_shift_by_data_that_another_handler_catches():
    """A negative count is a ValueError, which no other handler sees."""
    report = check(Counted(KeyError), (torch.tensor([3, 1]),))
    assert report.status == "proved"
    run = report.program.module()
    assert torch.equal(run(torch.tensor([4, 1])), torch.tensor([16, 4]))
    with pytest.raises(Exception, match="negative shift count"):
        run(torch.tensor([1, 1]))


def test_a_shift_by_data_that_is_caught():
    with pytest.raises(UsageError, match="catches it"):
        check(Counted(ValueError), (torch.tensor([3, 1]),))
