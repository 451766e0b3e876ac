"""The laws of the solver again, for what has little or no algebra: bits, shifts, doubles, and opaque functions."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shapeproof.constraints.formulas import Formula
from shapeproof.constraints.meaning.evaluate import holds
from shapeproof.constraints.syntax.text import parse_formula
from shapeproof.constraints.terms import symbol, unknown
from shapeproof.solver.facts import Facts
from shapeproof.solver.learned.reduction import substitute
from shapeproof.solver.prove import decide, truth
from shapeproof.solver.sampled.points import true_at
from tests import strategies as s
from tests.thoroughness import examples

SIDE = 3
BOX = [parse_formula(f"-{SIDE} <= {name} <= {SIDE}") for name in s.NAMES]
POINTS = [dict(zip(s.NAMES, values, strict=True)) for values in product(range(-SIDE, SIDE + 1), repeat=len(s.NAMES))]

many = settings(max_examples=examples(150))
few = settings(max_examples=examples(40))

comparisons = st.builds(
    "({} {} {})".format, s.wide_integer_texts, st.sampled_from(["<", "<=", "==", "!=", ">", ">="]), s.wide_integer_texts
)
divisors, relations = st.sampled_from(["2", "3", "4", "x"]), st.sampled_from(["<", "<=", "=="])
quotients = st.builds("({} / {} {} {})".format, s.integer_texts, divisors, relations, s.integer_texts)
questions = st.one_of(comparisons, quotients, s.formula_texts).map(parse_formula)


def where(formulas):
    return [point for point in POINTS if all(true_at(formula, point) for formula in formulas)]


@pytest.mark.thorough
@many
@given(st.lists(questions, max_size=3), st.permutations(BOX), questions, st.data())
def test_the_ladder_agrees_with_trying_every_point_in_whatever_order_facts_come(facts, box, question, data):
    known = Facts()
    for fact in data.draw(st.permutations([*facts, *box])):
        known.learn(fact)
        known = known.fork() if data.draw(st.booleans()) else known
    holding = where(facts)
    failing = [point for point in holding if true_at(question, point) is not True]
    assert decide(question, known).status == ("vacuous" if not holding else "refuted" if failing else "proved")
    answer = truth(question, known)
    if holding:
        assert (answer.always is True) == (not failing)
        assert (answer.always is False) == all(true_at(question.negation, point) for point in holding)


def of_any_function(formula: Formula) -> Formula:
    """The formula with `z` replaced by an opaque function of x; equal to it where that is defined."""
    return substitute(formula, {"z": unknown("any", symbol("x"))})


@pytest.mark.thorough
@few  # Z3 is asked of each point whether some function makes the facts true there
@given(st.lists(questions, max_size=3), questions)
def test_what_is_claimed_of_an_opaque_function_holds_whatever_its_value(facts, question):
    known = Facts(map(of_any_function, [*BOX, *facts]))
    holding = where(facts)
    outcomes = {s.outcome(lambda: holds(question, point)) for point in holding}  # noqa: B023  (called at once)
    verdict, answer = decide(of_any_function(question), known), truth(of_any_function(question), known)
    for shown, expected in ((verdict.witness, False), (answer.witness_false, False), (answer.witness_true, True)):
        here = [point for point in holding if shown and all(point[name] == shown.get(name, 0) for name in "xy")]
        assert not shown or expected in [bool(true_at(question, point)) for point in here]
    if verdict.status == "vacuous" or known.contradictory:
        assert not outcomes
    if verdict.status == "proved" or answer.always is True:
        assert False not in outcomes
    if answer.always is False:
        assert True not in outcomes
