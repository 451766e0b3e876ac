"""What shape programs rely on is proved, and what only looks true is refuted; both are tried at the points of a box."""

from __future__ import annotations

import re
from collections import Counter
from itertools import islice, product
from pathlib import Path

import pytest

from shapeproof.constraints.syntax.text import parse_formula
from shapeproof.solver import prove
from shapeproof.solver.sampled.points import true_at

_SIDES = {1: 100, 2: 16, 3: 8, 4: 5}
_COMMA = re.compile(r", (?![^(]*\))")
_RELATION = re.compile(r"(.*?) (<=|>=|==|<|>) ([^<>=]*)")
_NEARBY = {"<=": ("<", "<=", "- 1"), ">=": (">", ">=", "+ 1"), "==": ("<=", "==", "+ 1"), "<": ("<", "<", "- 1")}
_EVERY = 12


def sections(name):
    """Title -> each formula with what is given."""
    found = {}
    for block in Path(__file__).with_name(name).read_text(encoding="utf-8").split("\n[")[1:]:
        title, *lines = block.strip().splitlines()
        pairs = [line.split("  # ") for line in lines]
        found[title.rstrip("]")] = [(formula, _COMMA.split(given)) for formula, given in pairs]
    return found


PROGRAMS = sections("shape_programs.txt")
OPEN = PROGRAMS.pop("not proved")
FACTS = sections("shape_facts.txt")
HOLD = {"facts": FACTS["holds"], **PROGRAMS}
FAIL = FACTS["fails"]


def failing_point(formula, given):
    """A point of a small box where what is given holds and the formula does not."""
    known, asked = [parse_formula(text) for text in given], parse_formula(formula)
    names = sorted(asked.symbols.union(*(fact.symbols for fact in known)))
    values = range(-2, _SIDES.get(len(names), 3))
    for chosen in islice(product(values, repeat=len(names)), 2_000):
        point = dict(zip(names, chosen, strict=True))
        if all(true_at(fact, point) for fact in known) and true_at(asked, point) is not True:
            return point
    return None


@pytest.mark.thorough
@pytest.mark.parametrize("family", HOLD)
def test_true_facts_are_proved(family):
    assert [formula for formula, given in HOLD[family] if prove(formula, given=given).status != "proved"] == []


@pytest.mark.thorough
@pytest.mark.parametrize("family", HOLD)
def test_true_facts_are_true(family):
    points = {formula: failing_point(formula, given) for formula, given in HOLD[family]}
    assert {formula: point for formula, point in points.items() if point} == {}


def test_true_facts_that_are_not_proved_are_true_and_undecided():
    assert [formula for formula, given in OPEN if failing_point(formula, given)] == []
    assert Counter(prove(formula, given=given).status for formula, given in OPEN) == {"undecided": len(OPEN)}


def test_facts_stand_in_one_place():
    texts = Counter((formula, *given) for facts in (*HOLD.values(), OPEN, FAIL) for formula, given in facts)
    assert [text for text, count in texts.items() if count > 1] == []


def test_near_misses_are_refuted_where_they_fail():
    for formula, given in FAIL:
        verdict = prove(formula, given=given)
        assert verdict.status == "refuted", formula
        assert all(true_at(parse_formula(text), verdict.witness) for text in given)
        assert true_at(parse_formula(formula), verdict.witness) is False


def nearby(formula, given):
    """The fact by one off, and without each of what is given: true or not."""
    relation = None if re.search(r" (and|or|if) ", formula) else _RELATION.fullmatch(formula)
    if relation:
        left, op, right = relation.groups()
        strict, same, by = _NEARBY.get(op, (op, op, "+ 1"))
        yield from ((f"{left} {strict} {right}", given), (f"{left} {same} {right} {by}", given))
    for index in range(len(given)):
        yield formula, given[:index] + given[index + 1 :]


def wrongly_proved(facts):
    """What is proved near the facts, though it fails at a point of the box."""
    for fact in facts:
        for formula, given in nearby(*fact):
            if prove(formula, given=given).status == "proved" and failing_point(formula, given):
                yield formula, given


@pytest.mark.thorough
def test_nothing_false_is_proved_near_a_fact():
    everything = [fact for facts in HOLD.values() for fact in facts]
    assert list(wrongly_proved(everything[::_EVERY])) == []


@pytest.mark.slow  # some three thousand questions
@pytest.mark.parametrize("family", HOLD)
def test_nothing_false_is_proved_near_any_fact(family):
    assert list(wrongly_proved(HOLD[family])) == []
