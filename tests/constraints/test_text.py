from __future__ import annotations

import itertools

import pytest

from shapeproof.constraints import formulas as f
from shapeproof.constraints import terms as t
from shapeproof.constraints.errors import ShapeproofError
from shapeproof.constraints.meaning.evaluate import evaluate
from shapeproof.constraints.syntax.text import (
    FormulaSyntaxError,
    format_formula,
    format_term,
    parse_any,
    parse_formula,
    parse_term,
)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("h % 4 == 0", "h % 4 == 0"),
        ("not h % 32", "h % 32 == 0"),
        ("(h + 3) % 4 == 1", "(h + 3) % 4 == 1"),
        ("a % (b*c) == 0", "a % (b*c) == 0"),
        ("n >= 2", "n >= 2"),
        ("2 <= n", "n >= 2"),
        ("n > 2", "n >= 3"),
        ("n < m", "n < m"),
        ("n <= m + 2", "n <= m + 2"),
        ("batch*seq <= 65536", "batch*seq <= 65536"),
        ("n + m + 3 <= 0", "m + n <= -3"),
        ("n == 2*_n", "n == 2*_n"),
        ("n != 1", "n != 1"),
        ("x.shape[0] == y.size[1] + 1", "x.shape[0] == y.size[1] + 1"),
        ("min(h//4, w//4) > 4", "min(h//4, w//4) >= 5"),
        ("max(0, n - 1) == k", "k + 1 == max(1, n)"),
        ("(n + 7)//8*8 - n < 8", "-n % 8 <= 7"),
        ("n//b == n//b", "0//b == 0"),
        ("a < 1 or b < 1 and c < 1", "a <= 0 or b <= 0 and c <= 0"),
        ("(a < 1 or b < 1) and c < 1", "c <= 0 and (a <= 0 or b <= 0)"),
        ("real(a) * 2 < n", "real(a) * float(2) < n"),
        ("not real(a) < n", "not real(a) < n"),
        ("(a if a < b else b) == 2", "(b if b <= a else a) == 2"),
    ],
)
def test_formulas_print_readably(text, printed):
    assert str(parse_formula(text)) == printed
    assert parse_formula(printed) is parse_formula(text)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("-4*((-x)//4)", "4*((x + 3)//4)"),
        ("x - x//2", "(x + 1)//2"),
        ("(x - x//2)*(y - y//2)", "((x + 1)//2)*((y + 1)//2)"),
        ("4 - x", "4 - x"),
        ("-x", "-x"),
        ("-x*y", "-x*y"),
        ("-(x//4)", "-(x//4)"),
        ("x + x % 4", "x + x % 4"),
        ("(x + y)//3", "(x + y)//3"),
        ("x//(y*z)", "x//(y*z)"),
        ("x//y//z", "x//y//z"),
        ("x**2*y", "x**2*y"),
        ("2**x", "2**x"),
        ("(x + 1)**k", "(x + 1)**k"),
        ("(-2)**k", "(-2)**k"),
        ("x & y | z", "z | x & y"),
        ("(x + 1) << y", "x + 1 << y"),
        ("`max` + max(1, `and`)", "max + max(1, `and`)"),
        ("`a b`*2", "2*`a b`"),
        ("`f`(x, 1)", "`f`(x, 1)"),
        ("int(x / 2)", "int(x / 2)"),
        ("floor(-(x * 0.5))", "-ceil(float(x) * 0.5)"),
        ("0*(x//y) + 1", "1 + 0//y"),
    ],
)
def test_terms_print_readably(text, printed):
    assert str(parse_term(text)) == printed
    assert parse_term(printed) is parse_term(text)


def test_symbols_are_shown_by_the_names_the_user_knows():
    names = {"s0": "x.shape[0]"}
    assert format_term(parse_term("2*s0 + s1"), names) == "2*x.shape[0] + s1"
    assert format_formula(parse_formula("s0 % 4 == 0"), names) == "x.shape[0] % 4 == 0"


@pytest.mark.parametrize(
    ("text", "message", "column"),
    [
        ("", "ends where a value should follow", 1),
        ("x +", "ends where a value should follow", 4),
        ("x + * y", "A value should stand where '*' is", 5),
        ("x y", "An operator should stand where 'y' is", 3),
        ("(x", "not closed", 1),
        ("x)", "never opened", 2),
        ("x, y", "between the arguments", 2),
        ("sin", None, None),
        ("foo(x)", "There is no function called foo", 1),
        ("max(x)", "two or more arguments", 1),
        ("int(x, y)", "one argument", 1),
        ("min()", "two or more arguments", 1),
        ("x $ y", "An operator should stand where '$' is", 3),
        ("x = 3", "An operator should stand where '=' is", 3),
        ("1 + (x < 3)", "is a condition where a number should stand", 3),
        ("x if y", "has no 'else'", 3),
        ("x else y", "has no 'if'", 3),
        ("x & 0.5", "for integers only", 3),
        ("~0.5", "for integers only", 1),
        ("0.5 if x else 1", "two integers or between two conditions", 5),
        ("1" * 5000, "too long in decimal", 1),
        ("real(3)", "3 is none", 1),
        ("x\n  +\n $", "A value should stand where '$' is", 8),
    ],
)
def test_a_syntax_error_says_what_and_where(text, message, column):
    if message is None:
        parse_any(text)
        return
    with pytest.raises(FormulaSyntaxError) as caught:
        parse_any(text)
    assert message in str(caught.value)
    assert caught.value.column == column
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, ShapeproofError)


def test_a_term_is_not_a_formula_nor_the_other_way():
    with pytest.raises(FormulaSyntaxError):
        parse_term("x < 3")
    assert parse_formula("x") is parse_formula("x != 0")
    assert parse_formula("0.0*x") is parse_formula("0.0*x != 0.0")


@pytest.mark.parametrize(
    "name", ["x", "x.shape[0]", "L['x'].size", "a b", "`", "if", "inf", "1x", "", "naïve", "a``b", "😀"]
)
def test_any_name_can_be_written(name):
    term = t.symbol(name) * 2 + 1
    assert parse_term(str(term)) is term


@pytest.mark.thorough
def test_deep_chains_print_and_parse():
    term = t.symbol("x")
    for index in range(5000):
        term = t.maximum(t.minimum(term, index), t.symbol("y") - index) // t.symbol("y")
    assert parse_term(str(term)) is term
    nested = "(" * 20000 + "x" + ")" * 20000
    assert parse_term(nested) is t.symbol("x")


@pytest.mark.parametrize(
    ("text", "column"), [("(x + 1) $", 9), ("y + (x + 1", 5), ("(x + 1) (x + 1)", 9), ("(x + 1)) + 2", 8)]
)
def test_what_was_read_before_hides_no_error(text, column):
    parse_term("(x + 1)*((x + 1) + y)")
    for _ in range(2):
        with pytest.raises(FormulaSyntaxError) as error:
            parse_term(text)
        assert error.value.column == column


def test_a_text_in_parentheses_is_the_same_wherever_it_stands():
    x, y = t.symbol("x"), t.symbol("y")
    assert parse_formula("(x + y) < 2 and not (x + y) == 4 or min((x + y), 3)//(x + y) > 1") is f.disjunction(
        f.conjunction(f.lt(x + y, 2), f.ne(x + y, 4)), f.gt(t.minimum(x + y, 3) // (x + y), 1)
    )
    assert parse_formula("(x < y) and -(x + y)**2 == 1") is f.conjunction(f.lt(x, y), f.eq(-((x + y) ** 2), 1))
    assert parse_term("`a(`*(x + y)") is t.symbol("a(") * (x + y)


@pytest.mark.parametrize(
    "signs", [" ".join(each) for count in (1, 2, 3) for each in itertools.product("-+~", repeat=count)]
)
def test_signs_before_a_number_mean_what_they_mean_in_python(signs):
    """The fault: `--8` was a ValueError."""
    for value in (-3, 0, 5):
        assert parse_term(f"2 - {signs} {value}") is t.constant(eval(f"2 - {signs} {value}"))  # noqa: S307 - see above
        assert evaluate(parse_term(f"{signs} n"), {"n": value}) == eval(f"{signs} ({value})")  # noqa: S307
