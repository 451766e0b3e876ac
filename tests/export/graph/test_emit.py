"""What a graph computes of a term or a formula is what the expression means in Python."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shapeproof.constraints.syntax.text import parse_formula, parse_term
from shapeproof.export.graph.emit import Computation, NoGraphForm, has_graph_form
from tests.strategies import formula_texts, outcome, points, value_of, wide_integer_texts
from tests.thoroughness import examples

POINT = {"x": 7, "y": -3, "z": 2}
REALS = st.sampled_from(
    ["x / 4 <= y", "x * 0.5 < y", "abs(x / 3) >= z / 2", "not (x / 2 < y)", "(x / y) ** 2 > 1", "x / 4 != z"]
)


@settings(max_examples=examples(1500))
@given(wide_integer_texts, points)
@example("floor(x / z) + ceil(x / z) - int(x / z)", POINT)
@example("(x & 6) | (z << 3) >> 1", POINT)
@example("x if x > y else 3", POINT)
@example("3 if x > y else x", POINT)
def test_a_term_is_computed_as_python_does(text, point):
    """Where all of it has a value: a graph computes both sides, and a check is not part of a term."""
    computed, wanted = outcome(lambda: Computation(point).term(parse_term(text))), value_of(text, point)
    assert computed == wanted or isinstance(computed, type) or isinstance(wanted, type)


@settings(max_examples=examples(500))
@given(st.one_of(formula_texts, REALS), points)
@example("abs(x / 3) >= z / 2", POINT)
@example("not (x / 2 < y)", POINT)
def test_a_formula_is_computed_as_python_does(text, point):
    computed, wanted = outcome(lambda: Computation(point).formula(parse_formula(text))), value_of(text, point)
    assert computed == wanted or isinstance(computed, type) or isinstance(wanted, type)


def test_what_a_graph_cannot_compute_has_no_form():
    assert has_graph_form(parse_formula("x // w == 1"))
    for text in ("round(x / y) == 1", "x // w == 1", "w / 2 < x"):
        with pytest.raises(NoGraphForm):
            Computation(POINT).formula(parse_formula(text))
