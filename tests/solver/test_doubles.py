from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shapeproof.constraints.meaning.evaluate import evaluate, holds
from shapeproof.constraints.meaning.intervals import Interval
from shapeproof.constraints.syntax.text import parse_any, parse_term
from shapeproof.constraints.syntax.text import parse_formula as parse
from shapeproof.constraints.terms import symbol
from shapeproof.solver.facts import Facts
from shapeproof.solver.functions.doubles import range_of
from shapeproof.solver.learned.bounding import KnownBounds
from shapeproof.solver.learned.knowledge import within
from shapeproof.solver.prove import decide, prove, truth
from tests.strategies import value_of
from tests.thoroughness import examples


def facts(low, high):
    return Facts([parse(f"{low} <= n <= {high}"), parse("1 <= k <= 1000")])


@pytest.mark.quick
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
    assert facts(low, high).reduce(parse_term(term)) is parse_term(expected)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("term", "low", "high"),
    [("int(n / 3)", 0, 2**60), ("int(n / k)", -5, 5), ("int(n * 0.29)", 0, 100), ("floor(n * 0.5)", 0, 2**60)],
)
def test_where_it_may_matter_nothing_is_rewritten(term, low, high):
    assert facts(low, high).reduce(parse_term(term)) is parse_term(term)


def test_a_division_that_rounds_up_to_an_integer():
    # 2**53 - 1 over 2**53 is a double; the quotient of larger ones may round to the next integer
    n = (2**54 - 1) * 3 + 2
    assert math.trunc(n / 3) != n // 3
    assert decide(parse("int(n / 3) == n // 3"), Facts([parse(f"n == {n}")])).status == "refuted"


@pytest.mark.quick
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


def test_an_unbounded_double_is_not_rewritten_and_bounded_from_the_end_that_is_known():
    known = Facts([parse("n >= 100")])
    assert known.known.bounds(parse_term("int(n * 0.29)")) == Interval(28, None)
    assert known.reduce(parse_term("int(n * 0.5)")) is parse_term("int(n * 0.5)")


ROUNDED = ("round", "floor", "ceil", "int")


@pytest.mark.quick
@pytest.mark.parametrize("rounding", ROUNDED)
@pytest.mark.parametrize("divisor", [2, 3, 7, 2**40])
def test_a_rounded_quotient_lies_between_nothing_and_the_whole(rounding, divisor):
    """Of a size without an upper bound, too, where doubles are far apart."""
    text = f"0 <= {rounding}(n / {divisor}) <= n"
    assert decide(parse(text), Facts([parse("n >= 0")])).status == "proved"
    near = [2**power + offset for power in (9, 10, 52, 53, 54, 62, 63) for offset in range(-1, 4)]
    for n in [*range(300), *near]:
        assert holds(parse(text), {"n": n})


@pytest.mark.quick
@pytest.mark.parametrize(
    "text", ["round(n / 1) <= n", "round(n / 2) <= n - 1", "round(n / k) <= n", "ceil(n / 2) <= n // 2"]
)
def test_what_is_not_so_of_every_quotient_is_not_proved(text):
    assert decide(parse(text), Facts([parse("n >= 0"), parse("k >= 1")])).status != "proved"


@pytest.mark.quick
@pytest.mark.parametrize(
    ("text", "bounds"),
    [
        ("ceil(float(n) / 0.5) >= 0", {"n": (0, None)}),
        ("ceil((n - 0.0) / 0.5) >= 6", {"n": (3, None)}),
        ("floor(n * 0.3) >= 3", {"n": (10, None)}),
        ("round(n / -4.0) <= -2", {"n": (8, None)}),
        ("int(n / 3) >= 3333", {"n": (10000, None)}),
        ("round((n - m) / 2.0) <= 5", {"n": (None, 10), "m": (0, None)}),
        ("int(sqrt(n)) >= 3", {"n": (9, None)}),
        ("n * 0.5 >= 4.5 and not n / 3 < 3", {"n": (9, None)}),
        ("abs(n * 0.5) >= 0.5", {"n": (None, -1)}),
        ("n / k <= 12", {"n": (0, 12), "k": (None, None)}),
    ],
)
def test_monotone_functions_of_sizes_without_an_end_are_bounded_from_the_other(text, bounds):
    given = ["k != 0"] if "k" in bounds else []
    assert prove(text, bounds, given).status == "proved"


@pytest.mark.quick
@pytest.mark.parametrize(
    ("fact", "expected"),
    [
        ("ceil(n * 0.3) <= 3", Interval(None, 10)),
        ("int(n / 4) >= 5", Interval(20, None)),
        ("n * 0.5 < 4", Interval(None, 7)),
        ("round(n * -0.5) == 7", Interval(-14, -14)),
        ("floor(sqrt(n)) == 5", Interval(25, 35)),
        ("ceil(n / 0.5) <= 1 and ceil(n / 0.5) != 0", Interval(None, -1)),
        (f"float(n) <= {2.0**62}", Interval(None, 2**62 + 2**9)),
    ],
)
def test_a_fact_about_doubles_bounds_the_size_in_it(fact, expected):
    assert Facts([parse(fact)]).range_of("n") == expected


_INFINITE = "n * 1e300 * 1e300"


@pytest.mark.quick
@pytest.mark.parametrize("text", ["n / k <= -1", "-n / k >= 1", "n / -k >= 1"])
def test_a_quotient_of_a_negative_integer_comes_near_to_zero(text):
    assert not holds(parse(text), {"n": -1, "k": 3})
    assert prove(text, {"n": (None, -1), "k": (1, None)}).status != "proved"


@pytest.mark.quick
@pytest.mark.parametrize(
    "text",
    [
        f"{_INFINITE} - {_INFINITE} <= 1e308 * 10.0",
        f"0.0 * ({_INFINITE}) == 0.0",
        f"min(5.0, 0.0 * ({_INFINITE})) <= 1.0",
    ],
)
def test_a_double_may_be_nan(text):
    assert not holds(parse(text), {"n": 2**62})
    assert prove(text, {"n": (0, 2**62)}).status != "proved"


def test_a_quotient_of_large_integers_is_rounded_once():
    """Not each integer first: this quotient is 48 more than that of the two doubles."""
    n = 5258986265376043509
    assert int(n / 56) == int(float(n) / 56.0) + 16
    verdict = prove(f"int(n / 56) <= {int(float(n) / 56.0)}", {"n": (n - 1, n)})
    assert verdict.status == "refuted"


_INTEGERS = st.sampled_from(["n", "k", "n", "k", "(n + k)", "n*k", "n//3", "(n - 2*k)", "7", "floor(n * 0.3)"])
_DOUBLES = st.sampled_from(["0.5", "0.29", "3.0", "-2.5", "1e300", "1e-300", "0.0", "1e308*10.0", "-1e308*10.0"])
_QUOTIENTS = st.builds("({} / {})".format, _INTEGERS, _INTEGERS)


def _grown(operands):
    return st.one_of(
        st.builds("({} {} {})".format, operands, st.sampled_from("+-*/"), operands),
        st.builds("({} {} {})".format, operands, st.sampled_from("*/"), _DOUBLES),
        st.builds("{}({}, {})".format, st.sampled_from(["min", "max"]), operands, operands),
        st.builds("{}({})".format, st.sampled_from(["sqrt", "abs", "-", "float"]), operands),
    )


real_texts = st.recursive(
    st.one_of(_QUOTIENTS, st.builds("float({})".format, _INTEGERS), _DOUBLES), _grown, max_leaves=5
)
"""Texts of float expressions in n and k."""

_ENDS = st.one_of(
    st.integers(-4, 9), st.builds(lambda power, by: 2**power + by, st.integers(50, 66), st.integers(-3, 3))
)


@st.composite
def boxed_points(draw):
    """Ranges of n and k, some without an end, and points in them, doubles far apart included."""
    ranges, points = {}, [{}, {}, {}]
    for name in ("n", "k"):
        low, high = sorted(draw(st.tuples(_ENDS, _ENDS)))
        low, high = draw(st.sampled_from([(low, None), (None, high), (low, high), (-high, -low), (None, None)]))
        ranges[name] = Interval(low, high)
        far = draw(st.sampled_from([9, 2**53, 2**63, 10**40, 10**308]))
        inside = st.integers(low if low is not None else -far, high if high is not None else max(far, low or 0))
        for point in points:
            point[name] = draw(inside)
    return ranges, points


@pytest.mark.thorough
@settings(max_examples=examples(400))
@given(real_texts, boxed_points())
def test_the_range_of_a_float_expression_holds_every_value_that_python_computes(text, boxed):
    ranges, points = boxed
    bounds, real = KnownBounds(ranges, {}), parse_any(text)
    found = range_of(real, bounds.of)
    for point in points:
        value = value_of(text, point)
        if isinstance(value, float):
            assert found.nan if math.isnan(value) else found.low <= value <= found.high
        for rounding in ROUNDED:
            rounded = value_of(f"{rounding}({text})", point)
            if isinstance(rounded, int):
                assert rounded in bounds.of(parse_term(f"{rounding}({text})"))


@pytest.mark.thorough
@settings(max_examples=examples(400))
@given(real_texts, st.sampled_from(["<", "<=", "==", "!="]), st.integers(-3, 9), boxed_points())
def test_what_is_cut_off_by_a_fact_about_doubles_is_only_where_it_fails(text, op, value, boxed):
    ranges, points = boxed
    for shown in (f"{text} {op} {value}", f"ceil({text}) {op} {value}"):
        facts = Facts([*(each for name, box in ranges.items() for each in within(symbol(name), box)), parse(shown)])
        for point in points:
            if value_of(shown, point) is True:
                assert not facts.known.contradiction
                assert all(point[name] in facts.range_of(name) for name in ranges)


@settings(max_examples=examples(400))
@given(
    real_texts, st.sampled_from(["<", "<=", "==", "!=", ">", ">="]), st.one_of(real_texts, _INTEGERS), boxed_points()
)
def test_what_ranges_say_of_a_comparison_python_says_too(left, op, right, boxed):
    ranges, points = boxed
    text = f"{left} {op} {right}"
    for opposite, formula in ((False, parse(text)), (True, parse(text).negation)):
        said = KnownBounds(ranges, {}).truth(formula)
        values = [value_of(text, point) for point in points]
        assert said is None or all(value is not (said == opposite) for value in values)


DOUBLES = ("n * 1.5", "n / 2", "n / k", "n * 0.5 + k", "k * 0.25", "sqrt(n)", "n + 0.5", "n", "k", "n * k * 0.5")
COMPARISONS = ("{} <= {}", "{} < {}", "not {} <= {}", "not {} < {}")
NARROW = [{"n": n, "k": k} for n in range(13) for k in range(1, 5)]


@pytest.mark.quick
@pytest.mark.parametrize("comparison", COMPARISONS)
@pytest.mark.parametrize("left", DOUBLES)
def test_a_comparison_of_doubles_is_reduced_to_what_it_is_at_every_point(left, comparison):
    """The least fault would be an unsound proof: `<` taken for `<=`, or one end of an enclosure for the other."""
    known = Facts([parse("0 <= n <= 12"), parse("1 <= k <= 4")])
    settled = 0
    for right in DOUBLES:
        formula = parse(comparison.format(left, right))
        reduced = known.reduce(formula)
        assert all(holds(reduced, point) == holds(formula, point) for point in NARROW), (formula, reduced)
        settled += not reduced.symbols
    assert settled > 0 or left in {"n / k", "sqrt(n)", "n / 2", "k", "k * 0.25"}
