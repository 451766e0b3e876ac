from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shapeproof.constraints.meaning.evaluate import has_meaning, true_at
from shapeproof.constraints.syntax.text import parse_formula as parse
from shapeproof.solver.sampled.conditions import Conditions
from tests import strategies as s
from tests.thoroughness import examples

POINTS = [dict(zip(s.NAMES, values, strict=True)) for values in product((-4, -1, 0, 1, 2, 5), repeat=3)]

comparisons = st.builds(
    "{}*x {} {}".format, st.integers(-3, 3), st.sampled_from(("<", "<=", "==", "!=", ">", ">=")), st.integers(-6, 6)
)
facts = st.lists(st.one_of(comparisons, s.formula_texts).map(parse), max_size=8)


@pytest.mark.thorough
@settings(max_examples=examples(200))
@given(facts)
def test_conditions_hold_just_where_every_fact_does(formulas):
    conditions = Conditions()
    for formula in formulas:
        conditions.add(formula)
    for point in POINTS:
        assert conditions.hold(point) == all(true_at(formula, point) for formula in formulas if has_meaning(formula))


@pytest.mark.thorough
@given(facts, st.sampled_from(POINTS), st.sampled_from(POINTS))
def test_where_all_hold_only_what_mentions_a_moved_symbol_can_fail(formulas, point, there):
    conditions = Conditions()
    for formula in formulas:
        conditions.add(formula)
    moved = {name for name in s.NAMES if point[name] != there[name]}
    if conditions.hold(point):
        assert conditions.hold(there, moved) == conditions.hold(there)


def test_a_copy_learns_on_its_own():
    one = Conditions()
    one.add(parse("n >= 2"))
    two = one.copy()
    two.add(parse("n != 3"))
    assert one.hold({"n": 3})
    assert not two.hold({"n": 3})


def test_an_opaque_function_is_no_condition():
    conditions = Conditions()
    conditions.add(parse("`f`(n) >= 2"))
    assert conditions.hold({"n": 0})
