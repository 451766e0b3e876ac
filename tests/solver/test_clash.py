from __future__ import annotations

from shapeproof.constraints.syntax.text import parse_formula as parse
from shapeproof.solver.clash import clash
from shapeproof.solver.facts import Facts


def test_the_facts_that_clash_and_no_others():
    texts = ["a >= 1", "h % 4 == 0", "b <= a", "h % 4 == 1", "a < 8"]
    assert clash(Facts(map(parse, texts))) == (parse("h % 4 == 0"), parse("h % 4 == 1"))


def test_one_fact_can_clash_with_itself():
    assert clash(Facts([parse("n >= 1"), parse("x*x == 7 and -9 < x < 9")])) == (parse("x*x == 7 and -9 < x < 9"),)


def test_nothing_clashes_where_there_is_a_point():
    assert clash(Facts([parse("n >= 1")])) == ()
