"""Which of several groups of formulas holds first, by one generated function: what evaluating them says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shapeproof.constraints.meaning.compiled import first_holding
from shapeproof.constraints.meaning.evaluate import true_at
from shapeproof.constraints.syntax.text import parse_formula
from tests import strategies as s


@given(st.lists(st.lists(s.formula_texts, max_size=3), max_size=4), s.points)
def test_the_first_group_is_the_first_that_evaluates_to_true(groups, point):
    formulas = [[parse_formula(text) for text in texts] for texts in groups]
    names = sorted(point)
    expected = next(
        (i for i, group in enumerate(formulas) if all(true_at(each, point) is True for each in group)), None
    )
    assert first_holding(formulas, names)(*(point[name] for name in names)) == expected


def test_a_comparison_that_is_written_inline_means_the_same():
    texts = ["x <= 3", "x >= 3", "x == 3", "x != 3", "3 - x > 1", "x <= 3 or y == 2", "x > 1 and (y < 2 or y > 5)"]
    for text in texts:
        find = first_holding([[parse_formula(text)]], ["x", "y"])
        for x in range(-2, 8):
            for y in range(8):
                assert (find(x, y) == 0) == eval(text, {"x": x, "y": y})  # noqa: S307 - the texts above
