"""Conditions as arithmetic, against brute force over a box: they say what the formulas say."""

from __future__ import annotations

import itertools

import hypothesis.strategies as st
from hypothesis import assume, example, given

from shapeproof.constraints.meaning.evaluate import evaluate, holds
from shapeproof.constraints.syntax.text import parse_formula as parse
from shapeproof.export.forms.predicates import chosen, compared, kept_inside
from shapeproof.solver.facts import Facts

NAMES = ("a", "b")
SIZES = range(7)
POINTS = [dict(zip(NAMES, sizes, strict=True)) for sizes in itertools.product(SIZES, SIZES)]
DOMAIN = [parse(f"0 <= {name} <= {SIZES[-1]}") for name in NAMES]

terms = st.sampled_from(["a", "b", "a + b", "a - b", "2*a", "a % 2", "b % 3", "a // 2", "a*b", "min(a, b)"])
comparisons = st.builds(
    "{} {} {}".format, terms, st.sampled_from(["<=", "==", "!=", ">="]), st.one_of(terms, st.integers(0, 6))
)
joined = st.builds("{} {} {}".format, comparisons, st.sampled_from(["and", "or"]), comparisons)
formulas = st.one_of(comparisons, joined).map(parse)


@given(formulas)
def test_one_comparison_holds_where_the_formula_does(formula):
    one = compared(formula)
    assert all(holds(one, point) == holds(formula, point) for point in POINTS)


@given(st.lists(formulas, min_size=1, max_size=3))
def test_the_term_of_the_first_formula_that_holds_is_chosen(asked):
    term = chosen(asked, [parse_number(index) for index in range(len(asked))])
    for point in POINTS:
        first = next((index for index, formula in enumerate(asked) if holds(formula, point)), len(asked) - 1)
        assert evaluate(term, point) == evaluate(parse_number(first), point)


def parse_number(index):
    """A term that tells its index, and is another at each point."""
    return parse(f"{10 * (index + 1)}*a + b == 0").term


@given(formulas, st.sampled_from(POINTS))
@example(parse("a % 2 == 1 and a >= 2"), {"a": 3, "b": 0})
@example(parse("b % 3 == 2 and b <= 4"), {"a": 0, "b": 2})
@example(parse("a == b"), {"a": 3, "b": 3})
@example(parse("a == 4"), {"a": 4, "b": 0})
def test_what_is_kept_inside_stays_there_and_is_the_size_itself_inside(formula, inside):
    assume(holds(formula, inside))
    kept = kept_inside(formula, inside, Facts(DOMAIN))
    for point in POINTS:
        moved = point | {name: evaluate(term, point) for name, term in kept.items()}
        assert holds(formula, moved)
        assert moved == point or not holds(formula, point)
        assert all(size in SIZES for size in moved.values())
