from __future__ import annotations

import pytest

from shapeproof.constraints import formulas as f
from shapeproof.constraints import terms as t
from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.meaning.evaluate import holds
from shapeproof.constraints.syntax.text import parse_formula

x, y, b = map(t.symbol, "xyb")


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("2*x <= 3", "x <= 1"),
        ("2*x < 4", "x <= 1"),
        ("2*x == 3", "False"),
        ("2*x != 3", "True"),
        ("4*x == 8*y", "x == 2*y"),
        ("x - y == 0", "y - x == 0"),
        ("x//2//2 == x//4", "True"),
        ("x//4 >= 3", "x >= 12"),
        ("x//4 <= 3", "x <= 15"),
        ("x//4 > y", "x >= 4*y + 4"),
        ("not (x < 3 and y > 2)", "x >= 3 or y <= 2"),
        ("x < 3 and x >= 3", "False"),
        ("x < 3 or x >= 3", "True"),
        ("x < 3 and x < 3", "x < 3"),
        ("x < 3 and (y < 3 and b < 3)", "(b < 3 and y < 3) and x < 3"),
        ("x < 3 and True", "x < 3"),
        ("x//b > 0 or True", "x//b > 0 or True"),
        ("True or x//b > 0", "True"),
        ("x < 2.5", "x <= 2"),
        ("x == 2.5", "False"),
        ("2.0 <= x", "x >= 2"),
        ("x < inf", "True"),
        ("x == nan", "False"),
        ("x != nan", "True"),
        ("not x % 4", "x % 4 == 0"),
        ("1 <= x <= 8", "x >= 1 and x <= 8"),
        ("(x if x < y else y) <= 3 if b else y < 3", "(b != 0 and (x if x < y else y) <= 3) or (b == 0 and y < 3)"),
    ],
)
def test_equal_formulas_are_one_object(left, right):
    assert parse_formula(left) is parse_formula(right)


def test_a_comparison_that_may_be_undefined_is_not_true():
    same = parse_formula("x//b == x//b")
    assert same is not f.TRUE
    assert same.constant is None
    assert holds(same, {"x": 1, "b": 2})
    with pytest.raises(ZeroDivisionError):
        holds(same, {"x": 1, "b": 0})
    with pytest.raises(ZeroDivisionError):
        holds(parse_formula("x//b == x//b + 1"), {"x": 1, "b": 0})


def test_and_and_or_stop_where_python_stops():
    guarded = parse_formula("b != 0 and x//b > 1")
    assert holds(guarded, {"x": 1, "b": 0}) is False
    assert holds(f.negate(guarded), {"x": 1, "b": 0}) is True
    with pytest.raises(ZeroDivisionError):
        holds(parse_formula("x//b > 1 and b != 0"), {"x": 1, "b": 0})


def test_comparisons_of_floats_keep_their_negation():
    # not (a < b) is not b <= a: a may be nan
    less = parse_formula("real(a) < 1.0")
    assert not holds(less, {"a": float("nan")})
    assert holds(f.negate(less), {"a": float("nan")})
    assert f.negate(f.negate(less)) is less


def test_a_comparison_of_an_integer_with_a_float_is_exact():
    assert not holds(parse_formula("n == 9007199254740992.0"), {"n": 2**53 + 1})
    assert holds(parse_formula("n == float(m)"), {"n": 2**53, "m": 2**53 + 1})


def test_a_formula_has_no_truth_value_of_its_own():
    with pytest.raises(UsageError):
        bool(f.ge(x, 1))


def test_symbols_are_what_an_environment_must_give():
    formula = parse_formula("truth(p) and real(a) < x and y//b > 0*(c//d)")
    assert formula.symbols == {"p", "a", "x", "y", "b", "d"}


@pytest.mark.parametrize("op", ["<=", "==", "!="])
@pytest.mark.parametrize("offset", [-3, -1, 0, 1, 2])
@pytest.mark.parametrize("scale", [-2, -1, 1, 3])
def test_a_choice_between_two_numbers_compares_as_its_condition(op: str, offset: int, scale: int) -> None:
    choice = t.where(f.ge(x, 4), 1, 0)
    made = f.compare(op, choice * scale + offset)
    assert "if" not in str(made)
    for value in (3, 4):
        holds_there = {"<=": int.__le__, "==": int.__eq__, "!=": int.__ne__}[op]((value >= 4) * scale + offset, 0)
        assert holds(made, {"x": value}) is holds_there
