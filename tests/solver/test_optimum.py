from __future__ import annotations

import pytest

from shapeproof.constraints.records.verdicts import Undecided
from shapeproof.constraints.syntax.text import parse_formula as parse
from shapeproof.constraints.syntax.text import parse_term
from shapeproof.solver.answers.optimum import greatest_lower_bound, least_upper_bound
from shapeproof.solver.budget import Budget
from shapeproof.solver.facts import Facts


@pytest.mark.quick
@pytest.mark.parametrize(
    ("given", "term", "least", "greatest"),
    [
        (["1 <= n <= 100", "n % 8 == 0", "0 <= u <= n//2"], "u + 1", 1, 49),
        (["1 <= h <= 30", "1 <= w <= 30", "h + w <= 20"], "h*w", 1, 100),
        (["b >= 1"], "b", 1, None),
        (["n <= 7"], "n - 1", None, 6),
        (["0 <= u0 <= s0*s1", "1 <= s0 <= 5", "1 <= s1 <= 5"], "u0", 0, 25),
        (["n == 4"], "n*n", 16, 16),
        (["-3 <= x <= 5"], "x*x", 0, 25),
        (["1 <= n <= 1000"], "(n + 7)//8*8 - n", 0, 7),
    ],
)
def test_bounds_are_the_tightest(given, term, least, greatest):
    known = Facts(map(parse, given))
    assert greatest_lower_bound(parse_term(term), known) == least
    assert least_upper_bound(parse_term(term), known) == greatest


def test_an_unproved_bound_is_undecided():
    known = Facts(map(parse, ["a >= 1", "b >= 1", "c >= 1", "a**3 + b**3 <= c**3 + d"]), Budget(rlimit=30_000))
    assert isinstance(greatest_lower_bound(parse_term("d*d*d - a*b"), known), Undecided | int | None)


def test_without_a_point_there_is_no_bound():
    known = Facts(map(parse, ["n >= 1", "n <= 0"]))
    assert isinstance(least_upper_bound(parse_term("n"), known), Undecided)


def test_a_term_that_divides_by_a_size_of_0_has_no_known_bound():
    """The fault: a stride of such a term, noted in a program, ended the export with an error of ours."""
    facts = Facts([parse("0 <= n <= 3"), parse("0 <= m <= 8")])
    assert isinstance(least_upper_bound(parse_term("m // n"), facts), Undecided)
    assert least_upper_bound(parse_term("m // n"), facts.assuming(parse("n >= 1"))) == 8
