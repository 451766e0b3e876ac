from __future__ import annotations

import operator

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from benchmarks.peers.reading import CONNECTIVES, Unsupported, read
from tests.strategies import formula_texts, outcome, points, value_of

PYTHON = vars(operator) | CONNECTIVES | {"min": min, "max": max, "where": lambda c, a, b: a if c else b}


@given(formula_texts, points)
def test_what_is_read_with_pythons_operators_is_what_python_says(text, point):
    # Both sides of a connective are read, so that one may raise here where Python does not come to it.
    found = outcome(lambda: read(text, point, PYTHON))
    assume(found is not ZeroDivisionError)
    assert found == value_of(text, point)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 <= n < 7", True),
        ("not 1 <= n < 6", True),
        ("-n//4 == -2 and n % -4 == -2", True),
        ("n**3 == 216", True),
        ("min(n, 9, 4) + max(1, n) == 10", True),
        ("(n if n > 1 else 1) == 1 or n == 5", False),
    ],
)
def test_the_forms_of_a_question(text, value):
    assert bool(read(text, {"n": 6}, PYTHON)) is value


@pytest.mark.parametrize("text", ["n @ 2", "f'{n}'", "n.bit_length()", "[n]", "~n == 1", "2**n == 4", "lambda: n"])
def test_what_is_no_operation_of_the_peer_is_not_read(text):
    with pytest.raises(Unsupported):
        read(text, {"n": 6}, {"eq": operator.eq})


@given(st.integers(-20, 20))
def test_a_sign_before_a_number_is_part_of_the_number(value):
    assert read(str(value), {}, {}) == value
