"""The laws of repairs, against all points of a small box.

A repair implies what it repairs, is never empty, and is maximal of its kind.
"""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from shapeproof.constraints.formulas import conjunction
from shapeproof.constraints.meaning.compiled import compiled
from shapeproof.constraints.nodes import postorder
from shapeproof.constraints.syntax.text import parse_formula
from shapeproof.constraints.terms import FloorDiv
from shapeproof.solver.answers.repair import repaired, repairs
from shapeproof.solver.answers.simplify import simplified
from shapeproof.solver.facts import Facts
from shapeproof.solver.ledger import one_ledger
from shapeproof.solver.sampled.points import true_at
from tests import strategies as s
from tests.thoroughness import examples

NAMES = ("x", "y")
SIDE = range(13)
BOX = [parse_formula(f"0 <= {name} <= {SIDE[-1]}") for name in NAMES]
POINTS = [dict(zip(NAMES, values, strict=True)) for values in product(SIDE, repeat=len(NAMES))]

_SHAPES = (
    "x % {a} == 0", "x % {a} == {b} % {a}", "x // {a} != {b}", "x != {b}", "x >= {b}", "x // {a} >= {b}", "x == {b}",
    "x == {b} or x == {a}", "x*y <= {c}", "x + y == {c}", "x == y", "x == {a}*y", "x == {a}*y + {b}", "x <= y",
    "x*y % {a} == 0", "(x + {a} - 1)//{a} == y", "x % {a} == 0 or x <= {b}", "min(x, y) >= {b}", "(x + y) % {a} == 0",
    "x == 0 or y % x == 0", "x != 0 and y // x <= {b}", "y <= {b} or {c} // x >= 2 or x == 0",
    "{c} // x >= 1", "int(x / {a}) == {b}", "x % {a} == y % {a}", "({c} - x) % {a} == 0 and x > {b}",
)  # fmt: skip
_shaped = st.builds(
    lambda shape, a, b, c: shape.format(a=a, b=b, c=c),
    st.sampled_from(_SHAPES), st.integers(2, 6), st.integers(0, 6), st.integers(4, 40),
)  # fmt: skip
_drawn = s.formula_texts.filter(lambda text: "z" not in text)
requirements = st.one_of(_shaped, _shaped, _shaped, _drawn).map(parse_formula)
declared = st.one_of(st.just([]), st.lists(_shaped.map(parse_formula), max_size=2))
many = settings(max_examples=examples(40))


def where(formulas, points=POINTS):
    """The points at which all the formulas hold; one that raises does not hold."""
    test = compiled(formulas, NAMES)
    return [point for point in points if test(*(point[name] for name in NAMES))]


@st.composite
def questions(draw, requirement=requirements):
    """Facts, what is required, and a point at which both hold, or None for the solver to choose one."""
    facts, required = draw(declared), draw(requirement)
    inside = where([*facts, required])
    assume(inside)
    return [*BOX, *facts], required, draw(st.one_of(st.none(), st.sampled_from(inside)))


@pytest.mark.thorough
@many
@given(questions())
def test_a_repair_implies_what_it_repairs_and_is_not_empty(question):
    facts, required, anchor = question
    for repair in repairs(required, Facts(facts), anchor):
        kept = where([*facts, repair.formula])
        assert kept
        assert anchor is None or anchor in kept
        assert where([required], kept) == kept


@many
@given(questions())
def test_the_first_repair_is_the_weakest_and_no_later_one_is_weaker(question):
    facts, required, anchor = question
    found = [where([*facts, repair.formula]) for repair in repairs(required, Facts(facts), anchor)]
    assert found[0] == where([*facts, required])
    for index, later in enumerate(found):
        assert all(not all(point in later for point in earlier) for earlier in found[:index])


def serving(facts, required, name):
    """From each value of the symbol that occurs to whether the requirement holds wherever it has that value."""
    domain = where(facts)
    found = {value: [point for point in domain if point[name] == value] for value in SIDE}
    return {value: where([required], points) == points for value, points in found.items() if points}


def run(values, anchor, modulus):
    """The longest interval around the anchor of values with its remainder, all of which serve."""
    kept = {anchor}
    for direction in (1, -1):
        ahead = [v for v in sorted(values, reverse=direction < 0) if (v - anchor) * direction > 0]
        for value in ahead:
            if (value - anchor) % modulus == 0:
                if not values[value]:
                    break
                kept.add(value)
    return kept


def modulus_of(formula):
    return next((node.divisor.constant_value for node in postorder(formula) if isinstance(node, FloorDiv)), 1)


@many
@given(questions())
def test_a_repair_of_one_symbol_is_maximal(question):
    facts, required, anchor = question
    assume(anchor is not None)
    for repair in repairs(required, Facts(facts), anchor):
        if repair.kind not in {"bounds", "multiple", "values"} or repair.formula.constant:
            continue
        (name,) = repair.formula.symbols
        values = serving(facts, required, name)
        chosen = {value for value in values if true_at(repair.formula, {name: value})}
        if repair.kind == "values":
            assert chosen == {value for value, serves in values.items() if serves}
            continue
        modulus = modulus_of(repair.formula)
        assert chosen == run(values, anchor[name], modulus)
        coarser = [d for d in range(1, modulus) if modulus % d == 0]
        assert all(not chosen <= run(values, anchor[name], d) for d in coarser)


@many
@given(st.lists(requirements, min_size=1, max_size=3), st.data())
def test_requirements_are_repaired_together_and_lose_nothing(required, data):
    inside = where(required)
    assume(inside)
    anchor = data.draw(st.one_of(st.none(), st.sampled_from(inside)))
    found = repaired(required, Facts(BOX), anchor)
    assert where([repair.formula for repair in found]) == inside


def test_what_the_anchor_does_not_satisfy_has_no_repair():
    required = parse_formula("x % 4 == 0")
    assert repairs(required, Facts(BOX), {"x": 3, "y": 0}) == []
    assert repaired([required], Facts(BOX), {"x": 3, "y": 0}) is None
    assert repaired([conjunction(required, required.negation)], Facts(BOX)) is None


def test_what_cannot_be_said_is_replaced_by_something_stronger_that_can():
    required, facts = parse_formula("int(float(n)**0.5) == 4"), Facts([parse_formula("0 <= n <= 500")])
    assert [repair.formula for repair in repaired([required], facts, {"n": 20})] == [parse_formula("16 <= n <= 24")]
    joint, facts = parse_formula("x // 2 == y"), Facts([parse_formula("x >= 0 and y >= 0")])
    (line,) = repaired([joint], facts, {"x": 8, "y": 4}, sayable=lambda formula: formula is not joint)
    assert line.formula is parse_formula("x == 2*y")


@pytest.mark.parametrize(
    ("required", "facts", "anchor", "expected"),
    [
        ("y + x == 32", "x >= 0 and y >= 0", {"x": 3, "y": 29}, "x + y == 32"),
        ("n % 4 == 0 and n//4 != 1", "n >= 2", None, "n % 4 == 0 and n >= 8"),
        ("(h + 6)//7*7 == h and h//7 >= 2", "1 <= h <= 600", None, "h % 7 == 0 and h >= 14"),
        ("n != 1", "n >= 1", None, "n >= 2"),
        ("n == 4 or n == 8 or n == 11", "n >= 0", {"n": 8}, "n == 4 or n == 8 or n == 11"),
        ("n*n != 9", "0 <= n <= 40", {"n": 8}, "n != 3"),
        ("a*b <= 64", "a >= 1 and b >= 1", {"a": 2, "b": 3}, "a*b <= 64"),
        ("int(n / 1) == 28", "4 <= n <= 64", {"n": 28}, "n == 28"),
    ],
)
def test_the_weakest_repair_of_usual_requirements(required, facts, anchor, expected):
    found = repairs(parse_formula(required), Facts([parse_formula(facts)]), anchor)
    assert found[0].formula is parse_formula(expected)


@many
@given(declared, st.lists(requirements, min_size=1, max_size=3))
def test_formulas_without_what_is_redundant_say_neither_more_nor_less(facts, formulas):
    simpler = simplified(formulas, Facts([*BOX, *facts]))
    assert where([*BOX, *facts, *simpler]) == where([*BOX, *facts, *formulas])
    assert len(str(simpler)) <= len(str(list(formulas)))


_LITERALS = ("x*y == 6", "x*y != 6", "x % 3 == 0", "x % 3 != 0", "y <= 5", "y >= 6", "x >= y", "x < y")
_clauses = st.lists(st.sampled_from(_LITERALS), min_size=1, max_size=3, unique=True).map(" or ".join)
_may_raise = st.sampled_from(["12 // x >= 2 or y <= 5", "12 // x < 2", "x == 0 or 12 // x >= 2"])


@many
@given(st.lists(_clauses, min_size=2, max_size=6), st.lists(_may_raise, max_size=1))
def test_clauses_that_are_resolved_say_neither_more_nor_less(clauses, raising):
    formulas = list(map(parse_formula, [*clauses, *raising]))
    assert where([*BOX, *simplified(formulas, Facts(BOX))]) == where([*BOX, *formulas])


def test_opposite_parts_of_two_clauses_are_resolved_without_z3():
    """Z3 takes as long as the products beside them are hard."""
    hard = "a*b*c {} 6*d*e"
    texts = [f"{hard.format('!=')} or f % 4 == 0", f"{hard.format('==')} or f % 4 == 0", "f % 4 != 0 or a*d >= 3*b"]
    with one_ledger() as ledger:
        facts = Facts(parse_formula(f"{name} >= 0") for name in "abcdef")
        simpler = simplified(list(map(parse_formula, [*texts, "a*d >= 3*b or c == 1"])), facts)
    assert simpler == list(map(parse_formula, ["a*d >= 3*b", "f % 4 == 0"]))
    assert ledger.spent["z3_queries"] == 0


def test_what_is_simplified_again_in_a_run_is_not_asked_again():
    texts = ["a*b != 6*c or a*b >= 7*c or c == 0", "a >= 3 or b >= 4", "a >= 2 or c % 2 == 0"]
    with one_ledger() as ledger:
        facts = [Facts(parse_formula(f"{name} >= 0") for name in "abc") for _ in range(2)]
        first = simplified(list(map(parse_formula, texts)), facts[0])
        spent = ledger.spent
        second = simplified(list(map(parse_formula, texts)), facts[1])
    assert second == first
    assert ledger.spent == spent
