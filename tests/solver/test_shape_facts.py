"""What shape programs rely on is proved, and what only looks true is refuted; both are tried at the points of a box."""

from __future__ import annotations

import re
from itertools import islice, product
from pathlib import Path

from shapeproof.constraints.text import parse_formula
from shapeproof.solver import prove
from shapeproof.solver.points import true_at

_TEXT = (Path(__file__).with_name("shape_facts.txt")).read_text(encoding="utf-8")
_SIDES = {1: 200, 2: 16, 3: 8, 4: 5}
_COMMA = re.compile(r", (?![^(]*\))")


def facts(section):
    """Each formula of a section, with what is given."""
    lines = _TEXT.partition(f"[{section}]\n")[2].partition("\n\n")[0].splitlines()
    for line in lines:
        formula, given = line.split("  # ")
        yield formula, _COMMA.split(given)


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


def test_true_facts_are_proved():
    assert [formula for formula, given in facts("holds") if prove(formula, given=given).status != "proved"] == []


def test_true_facts_are_true():
    points = {formula: failing_point(formula, given) for formula, given in facts("holds")}
    assert {formula: point for formula, point in points.items() if point} == {}


def test_near_misses_are_refuted_where_they_fail():
    for formula, given in facts("fails"):
        verdict = prove(formula, given=given)
        assert verdict.status == "refuted", formula
        assert all(true_at(parse_formula(text), verdict.witness) for text in given)
        assert true_at(parse_formula(formula), verdict.witness) is False
