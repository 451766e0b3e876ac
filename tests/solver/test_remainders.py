from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shapeproof.constraints.meaning.evaluate import evaluate, holds
from shapeproof.constraints.syntax.text import parse_formula as parse
from shapeproof.constraints.syntax.text import parse_term
from shapeproof.solver.facts import Facts
from shapeproof.solver.learned.audit import auditing
from shapeproof.solver.learned.bounding import remainder_in
from shapeproof.solver.prove import truth
from shapeproof.solver.sampled.points import named, satisfies
from tests.thoroughness import examples

LARGEST = 70
POINTS = [{"h": h} for h in range(LARGEST + 1)]

remainder_texts = st.builds(
    "({}h + {}) % {} {} {}".format,
    st.sampled_from(("", "-")), st.integers(-9, 9), st.sampled_from((2, 3, 4, 6, 8, 16)),
    st.sampled_from(("<=", ">=", "!=", "==")), st.integers(0, 12),
)  # fmt: skip
divisions = st.builds(
    "({}*h + {})//{}".format, st.integers(-3, 5), st.integers(-9, 9), st.sampled_from((2, 3, 4, 8, 16, 32))
)
several = st.lists(remainder_texts.map(parse), min_size=1, max_size=4)


def box(*facts):
    return Facts([parse(f"0 <= h <= {LARGEST}"), *facts])


@pytest.mark.quick
@pytest.mark.parametrize(
    ("term", "written"),
    [("h//4", "2*(h//8) + 1"), ("(h + 4)//8", "h//8 + 1"), ("h//4 - (h + 4)//8", "h//8"), ("(h + 7)//8", "h//8 + 1")],
)
def test_divisions_are_written_by_the_quotient_whose_remainder_is_known(term, written):
    assert box(parse("(h + 4) % 8 <= 3")).reduce(parse_term(term)) is parse_term(written)


def test_the_order_in_which_remainders_are_learned_does_not_matter():
    texts = ["(h + 4) % 8 <= 3", "h % 16 <= 7", "(3 - h) % 4 <= 2"]
    ways = [box(*map(parse, order)) for order in (texts, texts[::-1], [texts[1], texts[0], texts[2]])]
    assert {way.reduce(parse_term("h//4 + (h + 4)//8 + h//8")) for way in ways} == {parse_term("8*(h//16) + 2")}


@pytest.mark.quick
@pytest.mark.parametrize(
    "text", ["h - 4*((h + 4)//8)", "2*h - 8*(h//4)", "h - 8*(h//8)*w", "h - w*(h//w)", "h", "h//8"]
)
def test_what_is_no_remainder_is_not_taken_for_one(text):
    assert remainder_in(parse_term(text)) is None


@settings(max_examples=examples(200))
@given(several, st.lists(divisions.map(parse_term), min_size=1, max_size=3), st.booleans())
def test_every_division_keeps_its_value_where_the_facts_hold(facts, terms, at_once):
    known = box(*facts) if at_once else box()
    for fact in () if at_once else facts:
        known.learn(fact)
    inside = [point for point in POINTS if all(holds(fact, point) for fact in facts)]
    for point in inside:
        whole = named(known.known, point)
        assert [evaluate(known.reduce(term), whole) for term in terms] == [evaluate(term, point) for term in terms]
    for point in POINTS:
        whole = named(known.known, point)
        agrees = not known.known.contradiction and satisfies(known.known, {**point, **whole})
        agrees = agrees and all(evaluate(value, whole) == whole[name] for name, value in known.known.solved.items())
        assert agrees == (point in inside)


@settings(max_examples=examples(100))
@given(several, remainder_texts.map(parse))
def test_what_is_asked_of_remainders_is_answered_as_by_trying_all(facts, question):
    inside = [point for point in POINTS if all(holds(fact, point) for fact in facts)]
    answer = truth(question, box(*facts))
    outcomes = {holds(question, point) for point in inside}
    assert answer.vacuous == (not outcomes)
    assert answer.always == (outcomes.pop() if len(outcomes) == 1 else None)


@settings(max_examples=examples(30))
@given(several, divisions.map(parse_term))
def test_what_was_written_otherwise_is_proved_again(facts, term):
    with auditing() as auditor:
        box(*facts).reduce(term)
    report = auditor.check()
    assert report["refuted"] == report["unknown"] == []
