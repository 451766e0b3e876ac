"""A quotient of a quotient is the number that Python computes; torch merges the two whatever the signs."""

from __future__ import annotations

import itertools

import pytest
import sympy
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.export import Dim
from torch.utils._sympy.functions import FloorDiv, PythonMod

from shapeproof.export import check
from shapeproof.export.shim.numbers.symbols import merges, quotient

DIVISORS = [each for each in range(-4, 5) if each]


def test_torch_merges_a_quotient_of_a_quotient():
    """A canary: without the merging, `merges` and `quotient` are not needed."""
    a = sympy.Symbol("a", integer=True)
    merged = FloorDiv(FloorDiv(a, 3), sympy.Integer(-1) * sympy.Symbol("b", integer=True))
    assert merged.xreplace({a: sympy.Integer(20), sympy.Symbol("b", integer=True): sympy.Integer(1)}) == -7
    assert (20 // 3) // -1 == -6


@given(st.integers(-30, 30), st.lists(st.sampled_from(DIVISORS), min_size=2, max_size=3), st.booleans())
def test_a_quotient_stays_equal_when_its_symbols_are_replaced(value, divisors, early):
    names = sympy.symbols(f"d0:{len(divisors)}", integer=True)
    written, wanted = sympy.Symbol("a", integer=True), value
    for name, divisor in zip(names, divisors, strict=True):
        written, wanted = quotient(written, sympy.Integer(divisor) if early else name), wanted // divisor
    values = {name: sympy.Integer(each) for name, each in zip(names, divisors, strict=True)}
    assert written.xreplace({sympy.Symbol("a", integer=True): sympy.Integer(value), **values}) == wanted


def test_torch_takes_a_smaller_number_for_its_remainder_by_a_negative_one():
    """A canary: without it, a remainder by a negative number needs no other form."""
    a = sympy.Symbol("a", integer=True)
    assert PythonMod(sympy.Min(-2, a) - 9, -7).xreplace({a: sympy.Integer(0)}) == -11
    assert -11 % -7 == -4


def test_a_merged_quotient_is_equal_where_nothing_says_that_it_is_not():
    for value, one, other in itertools.product(range(-12, 13), DIVISORS, DIVISORS):
        inner = FloorDiv(sympy.Symbol("a", integer=True), sympy.Integer(one))
        if not merges(inner, sympy.Integer(other)):
            assert value // one // other == value // (one * other)


class Divided(torch.nn.Module):
    """The fault: the first two are `t // ((2*n - 5) * -n)` for torch, and the last two are their own remainders."""

    def forward(self, x, y):
        t, n = x.shape[0], y.shape[0]
        numbers = t // (-n) // (2 * n - 5), t // (2 * n - 5) // (-n), (min(-2, t) - 9) % -7, (-n - 9) % -n
        return [torch.full((1,), each) for each in numbers]


@pytest.mark.thorough
def test_two_orders_of_dividing_are_two_numbers():
    shapes = ({0: Dim("t", min=0, max=20)}, {0: Dim("n", min=1, max=4)})
    report = check(Divided(), (torch.ones(7), torch.ones(3)), dynamic_shapes=shapes)
    assert report.status == "proved"
    for t, n in itertools.product(range(21), range(1, 5)):
        inputs = torch.ones(t), torch.ones(n)
        assert report.program.module()(*inputs) == Divided()(*inputs)
