from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from shapeproof.constraints import terms as t
from shapeproof.constraints.formulas import TRUE, Compare
from shapeproof.constraints.meaning.evaluate import evaluate, holds
from shapeproof.constraints.meaning.intervals import Bounds, Interval, hull
from shapeproof.constraints.syntax.text import parse_formula, parse_term
from shapeproof.constraints.terms import symbol

BOX = {
    "b": Interval(1, 64),
    "n": Interval(1, None),
    "h": Interval(8, 1024),
    "w": Interval(8, 1024),
    "c": Interval(-7, 3),
}
SWIN = [
    line
    for line in (Path(__file__).parent / "swin_guards.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
]


@pytest.mark.parametrize(
    ("text", "lower", "upper"),
    [
        ("n", 1, None),
        ("-n", None, -1),
        ("b*h*w - b", 63, 64 * (1024 * 1024 - 1)),
        ("(n + 7)//8*8 - n", 0, 7),
        ("n % 4", 0, 3),
        ("n % b", 0, 63),
        ("n - n//b*b + 1", 1, 64),
        ("h//4 - h//8", 1, 128),
        ("b*(n % b)", 0, 64 * 63),
        ("(h - h//2)*(w - w//2)", 16, 512 * 512),
        ("3*b//4", 0, 48),
        ("min(h, 100)", 8, 100),
        ("max(h, n)", 8, None),
        ("b**2", 1, 64**2),
        ("c**2", 0, 49),
        ("c**3", -(7**3), 27),
        ("c**2*free", None, None),
        ("free**2", 0, None),
        ("free*0", 0, 0),
        ("100//b", 1, 100),
        ("100//(b - 10)", -100, 100),
        ("-100//n", -100, -1),
        ("free//n", None, None),
        ("h if h > 4 else free", 8, 1024),
        ("b & free", 0, 64),
        ("b | h", 0, 2047),
        ("1 << b", 2, 2**64),
        ("h >> b", 0, 512),
        ("2**b", 2, 2**64),
        ("int(100*0.29)", 28, 28),
        ("int(n*0.5)", None, None),
        ("`f`(n)", None, None),
        ("1//(n - n)", 0, 0),
    ],
)
def test_bounds(text, lower, upper):
    found = Bounds(BOX).of(parse_term(text))
    assert (found.lower, found.upper) == (lower, upper)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("b*h*w != b", True),
        ("(n + 7)//8*8 - n < 8", True),
        ("n < 1", False),
        ("n == 0", False),
        ("n < 5", None),
        ("n < 5 and b < 1", False),
        ("n < 5 or b >= 1", True),
        ("truth(p)", None),
        ("truth(p) or b < 65", True),
        ("real(a) < 1.0", None),
        ("int(2.5) == 2", True),
        ("2.0 * 3.0 < 5.0", False),
        ("n//n == 1", True),
    ],
)
def test_truth(text, expected):
    assert Bounds(BOX).truth(parse_formula(text)) is expected


def test_bounds_hold_on_every_point_of_small_boxes():
    texts = [
        "x//y",
        "x % y",
        "x*y - y",
        "(x*y + 3)//(y + 2)",
        "min(x, y)//3 - x//3",
        "x//2*(y//2) - x*y",
        "(x - y)**2//(x*x - 3)",
    ]
    ends = [(-4, -2), (-3, 2), (0, 0), (0, 3), (1, 4)]
    for text, (low, high), (least, most) in itertools.product(texts, ends, ends):
        term = parse_term(text)
        found = Bounds({"x": Interval(low, high), "y": Interval(least, most)}).of(term)
        for x, y in itertools.product(range(low, high + 1), range(least, most + 1)):
            try:
                assert evaluate(term, {"x": x, "y": y}) in found
            except ZeroDivisionError:
                continue


def test_intervals():
    assert hull([Interval(1, 2), Interval(-5, -4)]) == Interval(-5, 2)
    assert (Interval(1, 5) & Interval(3, None)) == Interval(3, 5)
    assert (Interval(1, 2) & Interval(3, None)).is_empty
    assert Interval(3, 3).single == 3
    assert Interval(3, 4).single is None
    assert Interval().single is None
    assert Interval(None, -1) * Interval(None, -1) == Interval(1, None)
    assert Interval(0, 0) * Interval() == Interval(0, 0)
    assert Interval(None, 5) // Interval(0, 0) == Interval()


@pytest.mark.thorough
def test_bounds_of_deep_terms():
    term = symbol("x")
    for index in range(5000):
        term = t.minimum(term // 2 + index, term + 1)
    assert Bounds({"x": Interval(0, 10)}).of(term).lower is not None


def test_swin_is_nearly_decided_by_canonical_form_and_bounds():
    # the facts learned from its first checks: height and width are multiples of 4, and more than 4 patches each
    formulas = [parse_formula(re.sub(r"\b([hw])\b", r"(4*\1)", line)) for line in SWIN]
    box = Bounds({"b": Interval(2, 64), "h": Interval(5, 256), "w": Interval(5, 256)})
    canonical = sum(formula is TRUE or _holds_where_defined(formula) for formula in formulas)
    decided = sum(box.truth(formula) is True for formula in formulas)
    assert canonical >= 165
    assert decided >= 345
    assert not any(box.truth(formula) is False for formula in formulas)


def _holds_where_defined(formula):
    return isinstance(formula, Compare) and formula.op == "==" and not formula.term.poly


def test_swin_guards_hold_at_the_example_and_print_back():
    for line in SWIN:
        formula = parse_formula(line)
        assert holds(formula, {"b": 2, "h": 64, "w": 96})
        assert parse_formula(str(formula)) is formula
