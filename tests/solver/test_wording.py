"""Conditions on one quantity in fewer words, held against every value that the quantity may have."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import evaluate, holds
from shapeproof.constraints.meaning.intervals import Interval
from shapeproof.constraints.syntax.text import parse_formula as parse
from shapeproof.constraints.syntax.text import parse_term
from shapeproof.solver.answers.simplify import simplified
from shapeproof.solver.answers.wording import has_value, reworded
from shapeproof.solver.facts import Facts
from tests.thoroughness import examples

comparisons = st.builds(
    "{} {} {}".format,
    st.sampled_from(["n", "n", "2*n", "-3*n", "(n - m)", "(2*m - 2*n)"]),
    st.sampled_from(["<", "<=", "==", "!=", ">", ">="]),
    st.integers(-6, 9),
)
formulas = st.recursive(
    comparisons,
    lambda operands: st.builds("({} {} {})".format, operands, st.sampled_from(["and", "or"]), operands),
    max_leaves=8,
).map(parse)
ends = st.one_of(st.none(), st.integers(-8, 8))


@settings(max_examples=examples(500))
@given(formulas, ends, ends)
def test_fewer_words_say_the_same_wherever_the_quantities_may_lie(formula: Formula, low, high):
    interval = Interval(low, high)
    other = reworded(formula, lambda _: interval)
    assert len(str(other)) <= len(str(formula))
    for n in range(-20, 21):
        for m in range(-20, 21):
            if n in interval and n - m in interval and m - n in interval:
                assert holds(other, {"n": n, "m": m}) == holds(formula, {"n": n, "m": m})


@pytest.mark.quick
@pytest.mark.parametrize(
    ("formulas", "facts", "expected"),
    [
        (["n >= 3", "n >= 8"], "0 <= n <= 20", ["n >= 8"]),
        (["n <= 7 and (n >= 3 or n >= 8)"], "0 <= n <= 20", ["n >= 3", "n <= 7"]),
        (["n == 0 or n == 2 or n == 3 or n == 4"], "0 <= n <= 4", ["n != 1"]),
        (["n == 0 or n == 2 or n >= 3"], "n >= 0", ["n != 1"]),
        (["n == 2 or n == 3 or n == 4"], "n >= 0", ["n >= 2", "n <= 4"]),
        (["n == 4 or n == 8"], "n >= 0", ["n == 4 or n == 8"]),
        (["a != b", "a <= b"], "a >= 0", ["a < b"]),
        (["n >= 3 and n % 2 == 0 and n >= 8 and n > m"], "m >= 0", ["n >= 8", "m < n", "n % 2 == 0"]),
        (["n // m >= 1", "m >= 2", "m >= 3"], "n >= 0", ["m >= 3", "n // m >= 1"]),
    ],
)
def test_what_is_left_of_redundant_formulas(formulas, facts, expected):
    assert simplified(list(map(parse, formulas)), Facts([parse(facts)])) == list(map(parse, expected))


@pytest.mark.quick
@pytest.mark.parametrize(
    "text",
    [
        "n - 3",
        "n//4",
        "(n + 7)//8 - 1",
        "2 - n//3",
        "-(-n//5)",
        "n % 4",
        "n//2 + m",
        "m - (n + m)//3",
        "2*(n//3)",
        "max(n//3, 0)",
        "max(0, n - 2)",
        "max(n, 0) - 1",
    ],
)
def test_a_term_has_a_value_where_that_is_said_of_it(text):
    term = parse_term(text)
    for value in range(-3, 4):
        said = has_value(term, value)
        for n in range(-12, 13):
            for m in range(-3, 4):
                assert holds(said, {"n": n, "m": m}) == (evaluate(term, {"n": n, "m": m}) == value)


def test_what_is_said_of_a_quotient_is_said_of_what_is_divided():
    assert has_value(parse_term("(n + 7)//8"), 2) is parse("n >= 9 and n <= 16")


@settings(max_examples=examples(60))
@given(st.integers(1, 9), st.integers(0, 9), st.integers(2, 9), st.data())
def test_a_remainder_of_one_size_is_said_of_the_size_itself(times, plus, divisor, data):
    """The fault: `(2*a + 4) % 5 == 4` for a multiple of 5."""
    formula = parse(f"({times}*n + {plus}) % {divisor} == {data.draw(st.integers(0, divisor - 1))}")
    (other,) = simplified([formula], Facts([parse("n >= 0")])) or [parse("True")]
    assert all(holds(formula, {"n": n}) == holds(other, {"n": n}) for n in range(100))
    if sum(holds(formula, {"n": n}) for n in range(divisor)) == 1:
        assert "%" not in str(other).replace("n % ", "")
