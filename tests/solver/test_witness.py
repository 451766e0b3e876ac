from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from shapeproof.constraints.formulas import TRUE
from shapeproof.constraints.meaning.evaluate import holds
from shapeproof.constraints.records.verdicts import Undecided
from shapeproof.constraints.syntax.text import parse_formula as parse
from shapeproof.constraints.terms import Term, symbol
from shapeproof.solver.answers.witness import ascending, find, generic, smallest
from shapeproof.solver.budget import Budget
from shapeproof.solver.facts import Facts
from shapeproof.solver.ledger import Ledger


def facts(*texts, budget=None):
    return Facts(map(parse, texts), budget)


def test_find_gives_a_point_or_proves_that_there_is_none():
    known = facts("n % 8 == 0", "0 <= n < 20")
    assert find(parse("n > 9"), known) == {"n": 16}
    assert find(parse("n > 16"), known) is None
    assert find(parse("n == n"), facts("n >= 1", "n <= 0")) is None


def test_find_says_when_it_does_not_know():
    known = facts("a >= 1", "b >= 1", "c >= 1", budget=Budget(rlimit=50_000))
    assert isinstance(find(parse("a**3 + b**3 == c**3"), known), Undecided)


def test_the_smallest_point_has_the_smallest_greatest_value_then_the_smallest_sum():
    known = facts("a >= 0", "b >= 0")
    assert smallest(parse("a + b > 6"), known) == {"a": 3, "b": 4}
    assert smallest(parse("a*b >= 12"), known) == {"a": 3, "b": 4}
    assert smallest(parse("a*b >= 12"), known, order=["b", "a"]) == {"a": 4, "b": 3}


def test_the_smallest_point_prefers_one_to_minus_one():
    assert smallest(parse("n != 0"), facts("-5 <= n <= 5")) == {"n": 1}
    assert smallest(parse("n < 0"), facts("-5 <= n <= 5")) == {"n": -1}


@pytest.mark.thorough
def test_all_points_come_once_and_in_order():
    known = facts("-3 <= a <= 3", "0 <= b <= 4", "a*b >= -2")
    points = [{"a": a, "b": b} for a in range(-3, 4) for b in range(5) if a * b >= -2]
    in_order = sorted(points, key=lambda p: (max(abs(p["a"]), p["b"]), abs(p["a"]) + p["b"], abs(p["a"]), -p["a"]))
    assert list(ascending(known, ["a", "b"])) == in_order


def test_points_in_order_end_with_the_first_where_nothing_is_to_be_told_apart():
    assert len(list(ascending(facts("n >= 0"), []))) == 1


def test_the_smallest_point_far_away():
    assert smallest(parse("n > 10**6 and n % 4096 == 5"), facts("n >= 0")) == {"n": 1003525}


def test_a_generic_point_has_no_accidents():
    known = facts("1 <= b <= 64", "h % 32 == 0", "w % 32 == 0", "h >= 32", "w >= 32", "c >= 0")
    point = generic(known, ["b", "h", "w", "c"])
    assert all(holds(fact, point) for fact in known.formulas)
    assert len({point[name] for name in "bhwc"}) == 4
    assert not {0, 1} & {point[name] for name in "bhwc"}


def test_wishes_that_cannot_be_granted_are_dropped_one_by_one():
    point = generic(facts("0 <= a <= 1", "b == a", "c >= 500"), ["a", "b", "c"])
    assert point["a"] in {0, 1}
    assert point["b"] == point["a"]
    assert point["c"] >= 500
    assert generic(facts("a >= 1", "a <= 0"), ["a"]) is None


def _questions_of_a_generic_point(texts, names):
    known = Facts(map(parse, texts), ledger=Ledger())
    point = generic(known, names)
    assert all(holds(fact, point) for fact in known.formulas)
    return point, len(known.ledger.entries)


@pytest.mark.parametrize("upper", [4096, 9])
def test_a_generic_point_of_independent_sizes_needs_no_question(upper):
    names = [f"d{index}" for index in range(60)]
    point, questions = _questions_of_a_generic_point([f"2 <= {name} <= {upper}" for name in names], names)
    counts = Counter(point.values())
    assert questions == 0
    assert max(counts.values()) == (1 if upper > 60 else 8)  # 60 sizes over 8 values, as evenly as possible
    assert min(counts.values()) == (1 if upper > 60 else 7)


def test_the_questions_of_a_generic_point_of_ordered_sizes_are_linear():
    for count in (4, 8, 16):
        names = [f"d{index:02}" for index in range(count)]
        chain = [f"{one} <= {other}" for one, other in itertools.pairwise(names)]
        point, questions = _questions_of_a_generic_point([*chain, f"{names[0]} >= 2"], names)
        assert len(set(point.values())) == count
        assert questions <= count


def test_a_size_that_only_the_solver_can_move_is_neither_0_nor_1():
    point = generic(facts("a >= 1", "b >= 1", "a*b == 35"), ["a", "b"])
    assert sorted(point.values()) == [5, 7]


def test_a_generic_point_moves_the_size_that_leaves_room_for_the_others():
    point = generic(facts("5 <= a <= 9", "5 <= b <= 6", "5 <= c <= 6"), ["a", "b", "c"])
    assert {point["b"], point["c"]} == {5, 6}
    assert point["a"] >= 7


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 3)), min_size=1, max_size=4), st.integers(0, 5))
def test_a_generic_point_has_as_few_accidental_zeros_and_ones_as_possible(box, relation):
    names = [f"d{index}" for index in range(len(box))]
    more = ["d0 == d0", "d0 % 3 == 1", "d0*d0 <= 40", f"d0 <= {names[-1]}", f"{names[-1]} != d0 + 1", "d0 + 2 >= 4"]
    texts = [f"{low} <= {name} <= {low + wide}" for name, (low, wide) in zip(names, box, strict=True)]
    known = facts(*texts, more[relation])
    boxed = itertools.product(*(range(low, low + wide + 1) for low, wide in box))
    inside = [point for point in boxed if known.contains(dict(zip(names, point, strict=True)))]
    point = generic(known, names)
    assert (point is None) == (not inside)
    assert point is None or tuple(point[name] for name in names) in inside
    if point is not None:
        free = [name for name in names if isinstance(known.reduce(symbol(name)), Term)]
        least = min(sum(values[names.index(name)] in {0, 1} for name in free) for values in inside)
        assert sum(point[name] in {0, 1} for name in free) == least


BOXES = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4)), min_size=1, max_size=3)


@given(BOXES, st.sampled_from(["a % 3 == 1", "a*a + b > 7", "a != b", "c == a + 2*b", "c > 11", "n == n"]))
def test_the_first_points_near_are_the_smallest(box, text):
    ranges = dict(zip("abc", box, strict=False))
    formula = parse(text)
    assume(formula.symbols <= ranges.keys())
    known = facts(*(f"{low} <= {name} <= {low + more}" for name, (low, more) in ranges.items()))
    every = itertools.product(*(range(low, low + more + 1) for low, more in box))
    points = [dict(zip(ranges, values, strict=True)) for values in every]
    in_order = sorted(
        (point for point in points if holds(formula, point)),
        key=lambda point: (max(point.values()), sum(point.values()), *point.values()),
    )
    known.learn(formula)
    assert list(itertools.islice(ascending(known, list(ranges)), 5)) == in_order[:5]
    assert smallest(TRUE, known, list(ranges)) == (in_order[0] if in_order else None)


FAR = (
    "1 <= b <= 64",
    "0 <= past <= 99",
    "1 <= step <= 64",
    "past % 37 == 36",
    "(past + step) % 11 == 9",
    "b*step >= 300",
)


def test_points_far_from_the_smallest_of_the_box_come_once_and_in_order():
    known, names = facts(*FAR), ["b", "past", "step"]
    box = itertools.product(range(1, 65), range(36, 100, 37), range(1, 65))
    points = (dict(zip(names, values, strict=True)) for values in box)
    inside = [point for point in points if known.contains(point)]
    in_order = sorted(inside, key=lambda point: (max(point.values()), sum(point.values()), *point.values()))
    assert list(itertools.islice(ascending(known, names), 40)) == in_order[:40]


def test_points_near_one_another_cost_no_further_questions():
    costs = []
    for count in (1, 20):
        known = Facts(map(parse, FAR), ledger=Ledger())
        assert len(list(itertools.islice(ascending(known, ["b", "past", "step"]), count))) == count
        costs.append(known.ledger.rlimit)
    assert costs[0] == costs[1] > 0


def test_the_smallest_point_is_found_where_the_lower_bounds_are_far_apart():
    assert smallest(parse("n % 1000 == 999"), facts("n >= 0", "m >= 5000", "k >= 0")) == {"k": 0, "m": 5000, "n": 999}
