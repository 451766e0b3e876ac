"""Shortcuts to an answer agree with the long way: learning in another order, stepping to a bound, a far point."""

from __future__ import annotations

from itertools import product

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from shapeproof.constraints.formulas import connected, gt
from shapeproof.constraints.meaning.evaluate import holds_at
from shapeproof.constraints.syntax.text import parse_formula, parse_term
from shapeproof.constraints.terms import symbol
from shapeproof.solver.answers.optimum import grows
from shapeproof.solver.answers.repair import _nearest, _stepped, repairs
from shapeproof.solver.answers.witness import find
from shapeproof.solver.facts import Facts
from shapeproof.solver.ledger import one_ledger
from shapeproof.solver.prove import implied
from tests.thoroughness import examples

SHAPES = (
    "x % {a} == 0", "-x % {a} <= {b}", "x // {a} >= {b}", "x <= {b}", "x + y <= {b}", "(x + 1)//{a} == 2*(y//{a})",
    "x // {a} != {b}", "y >= {b}", "x*y != {b}", "(x + 1)//2 == 2*((x + 3)//{a})",
)  # fmt: skip
formulas = st.builds(
    lambda shape, a, b: parse_formula(shape.format(a=a, b=b)),
    st.sampled_from(SHAPES), st.integers(2, 6), st.integers(0, 9),
)  # fmt: skip
BOX = [parse_formula("0 <= x <= 24"), parse_formula("0 <= y <= 6")]
POINTS = [{"x": x, "y": y} for x, y in product(range(25), range(7))]
some = settings(max_examples=examples(40))


def where(facts):
    return [point for point in POINTS if all(holds_at(each, point) for each in facts)]


@some
@given(st.lists(formulas, max_size=3), st.lists(formulas, min_size=1, max_size=2))
def test_facts_that_rest_on_others_hold_at_the_same_points(facts, others):
    resting = Facts([*BOX, *facts]).resting_on(*others)
    inside = where([*facts, *others])
    assert where(resting.formulas) == inside
    assert resting.contradictory == (not inside)
    for name in ("x", "y"):
        assert all(point[name] in resting.range_of(name) for point in inside)


@some
@given(st.lists(formulas, max_size=2), formulas, st.sampled_from(POINTS), st.sampled_from((1, -1)))
def test_a_step_finds_the_nearest_failing_value(facts, required, anchor, sign):
    failing = Facts([*BOX, *facts, required.negation])
    found = _stepped("x", failing, anchor, -sign)
    assume(found is not None)
    side = gt(symbol("x"), anchor["x"]) if sign < 0 else gt(anchor["x"], symbol("x"))
    assert found == _nearest("x", side, failing, sign=sign)


@some
@given(st.lists(formulas, max_size=3), st.sampled_from(("x", "x//3 - y", "2*x - x//2", "y - x", "x % 5")))
def test_a_term_that_grows_exceeds_every_64_bit_integer(facts, text):
    known = Facts([parse_formula("x >= 0"), BOX[1], *facts])
    if grows(parse_term(text), known):
        assert isinstance(find(gt(parse_term(text), 2**63 - 1), known), dict)


@some
@given(st.lists(formulas, max_size=3), formulas)
def test_formulas_that_share_no_symbols_do_not_matter(facts, formula):
    assume(where(facts))
    near = connected(formula.symbols, facts)
    assert implied(formula, Facts([*BOX, *near])) == implied(formula, Facts([*BOX, *facts]))


def test_repairs_are_sought_once_under_the_same_facts():
    required, declared = parse_formula("n % 4 == 0 and n//4 >= 2"), [parse_formula("n >= 0")]
    with one_ledger() as ledger:
        first = repairs(required, Facts(declared), {"n": 12})
        asked = len(ledger.entries)
        assert repairs(required, Facts(declared), {"n": 12}) == first
        assert asked == len(ledger.entries) > 0
        assert repairs(required, Facts([*declared, parse_formula("n % 4 == 0")]), {"n": 12}) != first
        assert repairs(required, Facts(declared), {"n": 10}) == []
