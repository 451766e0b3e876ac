from __future__ import annotations

import math
from fractions import Fraction

import pytest

from shapeproof.constraints.evaluate import evaluate, holds
from shapeproof.constraints.text import parse_formula as parse
from shapeproof.constraints.text import parse_term
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import decide, truth


def facts(low, high):
    return Facts([parse(f"{low} <= n <= {high}"), parse("1 <= k <= 1000")])


@pytest.mark.parametrize(
    ("term", "low", "high", "expected"),
    [
        ("int(n / 4)", 0, 10**6, "n//4"),
        ("int(n / k)", 0, 10**6, "n//k"),
        ("ceil(n / k)", 0, 10**6, "-(-n//k)"),
        ("floor(n / k)", -(10**6), 10**6, "n//k"),
        ("int(n / k)", -(10**6), 0, "-(-n//k)"),
        ("int(n * 0.5)", 0, 10**6, "n//2"),
        ("floor(n * 0.375 + 1.5)", -(10**6), 10**6, "(3*n + 12)//8"),
        ("round(n * 2.0)", 0, 10**6, "2*n"),
    ],
)
def test_where_rounding_cannot_matter_it_is_integer_arithmetic(term, low, high, expected):
    assert facts(low, high).simplify(parse_term(term)) is parse_term(expected)


@pytest.mark.parametrize(
    ("term", "low", "high"),
    [("int(n / 3)", 0, 2**60), ("int(n / k)", -5, 5), ("int(n * 0.29)", 0, 100), ("floor(n * 0.5)", 0, 2**60)],
)
def test_where_it_may_matter_nothing_is_rewritten(term, low, high):
    assert facts(low, high).simplify(parse_term(term)) is parse_term(term)


def test_a_division_that_rounds_up_to_an_integer():
    # 2**53 - 1 over 2**53 is a double; the quotient of larger ones may round to the next integer
    n = (2**54 - 1) * 3 + 2
    assert math.trunc(n / 3) != n // 3
    assert decide(parse("int(n / 3) == n // 3"), Facts([parse(f"n == {n}")])).status == "refuted"


@pytest.mark.parametrize("text", ["int(n * 0.29)", "int(n / 7 * 3.3)", "round(n * 1.1 - 2.5)", "ceil((n + 0.1) / 0.7)"])
def test_bounds_of_rounded_doubles_hold_every_value(text):
    term = parse_term(text)
    known = facts(-50, 60)
    bounds = known.known.bounds(term)
    values = [evaluate(term, {"n": n}) for n in range(-50, 61)]
    assert (bounds.lower, bounds.upper) == (min(values), max(values))


def test_comparisons_of_doubles_that_are_exact():
    assert truth(parse("n / 2 > 3"), facts(7, 10**6)).always is True
    assert truth(parse("n * 0.5 == n / 2"), facts(7, 10**6)).always is True
    assert truth(parse("n / 2 < 5.25"), facts(7, 10**6)).status == "depends"


def test_doubles_are_doubles_and_never_rationals():
    assert int(100 * 0.29) == 28 != int(100 * Fraction(29, 100))
    assert decide(parse("int(n * 0.29) == 29"), Facts([parse("n == 100")])).status == "refuted"


def test_an_unbounded_double_is_left_alone():
    known = Facts([parse("n >= 0")])
    assert known.known.bounds(parse_term("int(n * 0.29)")).upper is None
    assert known.simplify(parse_term("int(n * 0.5)")) is parse_term("int(n * 0.5)")


ROUNDED = ("round", "floor", "ceil", "int")


@pytest.mark.parametrize("rounding", ROUNDED)
@pytest.mark.parametrize("divisor", [2, 3, 7, 2**40])
def test_a_rounded_quotient_lies_between_nothing_and_the_whole(rounding, divisor):
    """Of a size without an upper bound, too, where doubles are far apart."""
    text = f"0 <= {rounding}(n / {divisor}) <= n"
    assert decide(parse(text), Facts([parse("n >= 0")])).status == "proved"
    near = [2**power + offset for power in (9, 10, 52, 53, 54, 62, 63) for offset in range(-1, 4)]
    for n in [*range(300), *near]:
        assert holds(parse(text), {"n": n})


@pytest.mark.parametrize(
    "text", ["round(n / 1) <= n", "round(n / 2) <= n - 1", "round(n / k) <= n", "ceil(n / 2) <= n // 2"]
)
def test_what_is_not_so_of_every_quotient_is_not_proved(text):
    assert decide(parse(text), Facts([parse("n >= 0"), parse("k >= 1")])).status != "proved"
