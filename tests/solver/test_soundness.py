"""Finds of the fuzzers and of attacks by hand, each of which was once answered wrongly or not at all."""

from __future__ import annotations

import pytest

from shapeproof.constraints.formulas import eq, ge, le
from shapeproof.constraints.meaning.compiled import compiled
from shapeproof.constraints.syntax.text import parse_formula as parse
from shapeproof.constraints.terms import symbol, unknown
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import decide, truth

ANY = unknown("any", symbol("x"))
"""The value of a function of which nothing is known."""

SMALL = parse("0 <= x <= 5")


def test_nothing_is_proved_of_an_opaque_function_by_trying_points():
    for formula in (ge(ANY, 3), ge(ANY, 3).negation, eq(ANY * ANY, 2 * symbol("x"))):
        assert decide(formula, Facts([SMALL])).status == "undecided"
        assert truth(formula, Facts([SMALL])).undecided


def test_facts_about_an_opaque_function_are_not_contradictory_because_no_point_can_be_tried():
    facts = Facts([SMALL, eq(ANY * ANY, symbol("x")), ge(ANY, 1)])
    assert not facts.contradictory
    assert decide(parse("x <= 5"), facts).status == "proved"
    assert decide(parse("x >= 3"), facts).status != "proved"


def test_what_z3_proves_of_an_opaque_function_stands():
    same = unknown("any", symbol("y"))
    assert decide(eq(ANY, same), Facts([SMALL, parse("x == y")])).status == "proved"
    assert decide(ge(ANY, 1), Facts([SMALL, ge(ANY, 2)])).status == "proved"


def test_a_point_at_which_no_function_makes_the_facts_true_refutes_nothing():
    facts = Facts([parse("0 <= x <= 9"), le(ANY * ANY, symbol("x") * symbol("x")), ge(ANY, 5)])
    assert decide(parse("x >= 5"), facts).status == "proved"
    assert decide(parse("x >= 6"), facts).witness == {"x": 5}
    assert all(point["x"] >= 5 for point in facts.samples())


@pytest.mark.quick
@pytest.mark.parametrize(
    "text", ["x << y >= 0", "2**y >= 1", "(1 << y) % 2 == 0", "x << 10**15 >= x", "x**(10**12) != 7", "3**(10**12) > x"]
)
def test_powers_and_shifts_with_huge_counts_neither_hang_nor_exhaust_memory(text):
    """The values of y that come to mind first, its ends, are beyond what a machine can hold."""
    facts = Facts([parse("x >= 1"), parse("y >= 10**15"), parse("y <= 10**15 + 3")])
    assert decide(parse(text), facts).status in {"proved", "refuted", "undecided"}
    assert truth(parse(text), facts).status in {"always", "never", "depends", "undecided"}


def test_what_is_too_large_to_compute_refutes_nothing_and_proves_nothing():
    facts = Facts([parse("x == 1"), parse("10**15 <= y <= 10**15 + 3")])
    assert decide(parse("(x << y) % 7 != 3"), facts).status == "undecided"


@pytest.mark.quick
@pytest.mark.parametrize("bounds", [[], ["1 <= x <= 7"], ["z >= 1"], ["-7 <= z <= 7"]], ids=str)
def test_equalities_from_which_ever_larger_divisors_follow_come_to_an_end(bounds):
    facts = Facts(map(parse, [*bounds, "z**2 == x", "7*x == 2*z"]))
    assert decide(parse("z == 0"), facts).status in {"proved", "vacuous"}


@pytest.mark.quick
@pytest.mark.parametrize(
    "given", [["x << x < x"], ["x >= 0", "x << (x << x) < x"], ["y >= x**9", "x >= y**9", "x >= 2"]], ids=str
)
def test_facts_from_which_ever_larger_bounds_follow_come_to_an_end(given):
    assert decide(parse("x == y"), Facts(map(parse, given))).status in {"refuted", "undecided", "vacuous"}


def test_integers_of_thousands_of_digits_are_decided_like_others():
    facts = Facts([ge(symbol("x"), 10**5000), le(symbol("x") * symbol("y"), 10**9000)])
    assert decide(ge(symbol("x"), 7), facts).status == "proved"
    assert decide(le(symbol("x") * symbol("y") * 2, 10**9001 + symbol("z") * symbol("z")), facts).status == "proved"
    assert decide(le(symbol("x"), 10**5000), facts).status == "refuted"
    assert compiled([le(10**5000 * symbol("x"), 10**5000)], ["x"])(1)
    assert not compiled([le(10**5000 * symbol("x") * symbol("x"), 10**5000 + symbol("x"))], ["x"])(2)


def test_a_product_that_was_renamed_is_not_forgotten_when_its_new_name_is_solved():
    facts = Facts()
    for text in ("x*y == y*z", "x + y + z == 0"):
        facts.learn(parse(text))
    assert decide(parse("y*(2*z + y) == 0"), facts).status == "proved"


def test_a_small_box_is_tried_as_it_was_asked_where_rewriting_made_it_large():
    box = ["-5 <= x <= 6", "-5 <= y <= 6", "-5 <= z <= 6"]
    facts = Facts(map(parse, [*box, "y >= abs(x)", "z % 8 // 2 == 2", "y % x == 0 if x > 0 else y > 2", "y > -1"]))
    assert decide(parse("y % 16 // 3 - y // 2 % 12 <= -1"), facts).status == "refuted"


def test_a_fact_that_follows_from_others_may_name_a_symbol_that_no_point_has():
    facts = Facts([parse("0 <= x <= 6")])
    assert truth(parse("x % 5 == 1"), facts).status == "depends"
    facts.learn(parse("z % 5 < max(6, x)"))
    facts.learn(parse("x + x == 10"))
    assert decide(parse("x == 5"), facts).status == "proved"
