"""Invalid input is refused in one sentence that says what was wanted."""

from __future__ import annotations

import pytest

from shapeproof.constraints.errors import UsageError
from shapeproof.solver import Budget, prove

BAD = {
    "'n + 3' is a number; a relation such as 'n + 3 == 0' was expected": lambda: prove("n + 3"),
    "3 is no text of a relation, such as 'n % 2 == 0'": lambda: prove(3),
    "'n <' cannot be read: The formula ends where a value should follow. (column 4)": lambda: prove("n <"),
    "given must be a sequence of texts such as ['n % 2 == 0'], not 'n < 2'": lambda: prove("n < 3", given="n < 2"),
    "'n' is a number; a relation such as 'n == 0' was expected": lambda: prove("n < 3", given=["n"]),
    "the bounds of `n` must be a pair such as (1, None), not 3": lambda: prove("n < 3", {"n": 3}),
    "the bounds of `n` must be a pair such as (1, None), not (0.5, 1)": lambda: prove("n < 3", {"n": (0.5, 1)}),
    "`$n//4` begins as the names that the solver makes up, with $": lambda: prove(
        "4*`$n//4` == n", given=["n % 4 == 0"]
    ),
    "rlimit of a Budget must be an integer of at least 0, not -1": lambda: Budget(rlimit=-1),
    "exhaustion_points of a Budget must be an integer of at least 0, not 1.5": lambda: Budget(exhaustion_points=1.5),
}


@pytest.mark.quick
@pytest.mark.parametrize("sentence", BAD)
def test_what_cannot_be_meant_is_one_sentence(sentence):
    with pytest.raises(UsageError) as raised:
        BAD[sentence]()
    assert str(raised.value) == sentence


def test_a_budget_of_nothing_leaves_undecided_what_needs_z3():
    nothing = Budget(rlimit=0, exhaustion_points=0)
    assert prove("a**3 + b**3 != c**3", dict.fromkeys("abc", (1, None)), budget=nothing).status == "undecided"
    assert prove("a + b > a", {"b": (1, None)}, budget=nothing).status == "proved"
