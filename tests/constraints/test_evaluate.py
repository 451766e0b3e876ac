from __future__ import annotations

import pytest

from shapeproof.constraints import terms as t
from shapeproof.constraints.errors import Unevaluable
from shapeproof.constraints.meaning.evaluate import evaluate, evaluate_number, holds
from shapeproof.constraints.syntax.text import parse_any, parse_formula, parse_term
from tests.strategies import divisors


def test_floats_are_doubles():
    assert evaluate(parse_term("int(100*0.29)"), {}) == int(100 * 0.29) == 28
    assert evaluate(parse_term("int(n*0.29)"), {"n": 100}) == 28
    assert evaluate(parse_term("round(n/2)"), {"n": 5}) == 2
    assert evaluate(parse_term("int(n/m)"), {"n": 2**53 + 1, "m": 1}) == 2**53
    assert evaluate_number(parse_any("n/m"), {"n": 1, "m": 3}) == 1 / 3


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("int(n*0.5)", OverflowError),
        ("int(n/1)", OverflowError),
        ("int(0.0*inf)", ValueError),
        ("1 << (1 - n)", ValueError),
        ("int(1/(n - n))", ZeroDivisionError),
        ("int(sqrt(-1))", ValueError),
        ("2**-n", Unevaluable),
        ("`f`(n)", Unevaluable),
        ("missing", Unevaluable),
    ],
)
def test_what_python_raises_is_raised(text, error):
    with pytest.raises(error):
        evaluate(parse_term(text), {"n": 10**400 if "1 - n" not in text and "**" not in text else 5})


def test_nothing_is_needed_of_the_side_that_is_not_taken():
    assert evaluate(parse_term("missing if n < 0 else 1//n"), {"n": 1}) == 1
    assert holds(parse_formula("n > 0 or 1//(n - 1) > missing"), {"n": 1})


def test_truths_and_real_symbols_come_from_the_environment():
    assert holds(parse_formula("truth(p) and real(a) < 0.5"), {"p": 1, "a": 0.25})


@pytest.mark.thorough
@pytest.mark.parametrize(
    "step",
    [
        lambda term, index: t.minimum(t.maximum(term, index), t.symbol("y") * index + 3),
        lambda term, index: (3 * term + index) // 5,
        lambda term, _: (term + 1) // t.symbol("y"),
        lambda term, _: t.symbol("x") // term + 1,
        lambda term, index: t.apply("xor", term, index),
        lambda term, _: t.unknown("f", term),
    ],
)
def test_terms_may_nest_thousands_deep(step):
    term = t.symbol("x")
    for index in range(5000):
        term = step(term, index)
    try:
        evaluate(term, {"x": 10**9, "y": 7})
    except Unevaluable:
        assert divisors(term) == frozenset()
    assert term.symbols <= {"x", "y"}
