from __future__ import annotations

import itertools
import math

import pytest

from benchmarks.peers.worker import Answer, Session, Step
from benchmarks.scoring import EVERY_POINT, Points, first_point, scored
from benchmarks.solver import FACTS, textbook

TEXTBOOK = textbook(FACTS.read_text(encoding="utf-8"), 60.0)


def session(*steps, declared=("1 <= n", "n <= 8"), bounds=(1, 8)):
    return Session("x", declared, {"n": bounds}, {"n": 4}, steps, 60.0)


def wrong(given, *steps):
    return [each.wrong for each in scored(session(*steps), [Answer(answer) for answer in given])]


def sides(each):
    """What the question comes to over every point of its domain, by Python alone."""
    ranges = [range(low, high + 1) for low, high in each.bounds.values()]
    inside = f"[bool({each.steps[0].ask}) for {', '.join(each.bounds)}, in points if {' and '.join(each.declared)}]"
    return frozenset(eval(inside, {"min": min, "max": max, "points": itertools.product(*ranges)}))  # noqa: S307


def test_a_claim_is_wrong_where_a_point_is_against_it():
    assert wrong(["always", "never"], Step("n != 1"), Step("n == 7")) == [{"n": 1}, {"n": 7}]


def test_what_is_no_claim_is_never_wrong():
    assert wrong(["unknown", "depends", "unsupported", "late"], *[Step("n != 1")] * 4) == [None] * 4


def test_what_was_learned_leaves_fewer_points():
    assert wrong(["always", "always"], Step("n != 1", "n % 2 == 0"), Step("n != 1")) == [{"n": 1}, None]
    # A fact alone is learned too, and is no question.
    assert wrong(["always"], Step(None, "n % 2 == 0"), Step("n != 1")) == [None]


def test_a_question_that_divides_by_zero_does_not_hold():
    points = Points(["0 <= n", "n <= 8"], {"n": (0, 8)}, {"n": 4})
    assert points.against("8 // n >= 1", "always") == {"n": 0}
    assert points.against("8 // n < 0", "never") is None


def test_a_witness_is_believed_only_inside_the_domain():
    far = 10**9
    domain = ["1 <= n", "n != 4"]
    points = Points(domain, {"n": (1, None)}, {"n": 5})
    assert points.against(f"n < {far}", "always") is None
    for offered, believed in (({"n": -far}, False), ({"n": far}, True)):
        points.offer(offered)
        assert (points.against(f"n < {far} and n > -{far}", "always") == offered) is believed


def test_witnesses_that_come_with_an_answer_are_held_against_later_ones():
    far = {"n": 10**9}
    asked = Session("x", ("1 <= n",), {"n": (1, None)}, {"n": 5}, (Step("n < 10**9"),) * 2, 60.0)
    first, second = scored(asked, [Answer("depends", witnesses=(far,)), Answer("always")])
    assert (first.wrong, second.wrong) == (None, far)


def test_large_boxes_are_sampled_at_their_ends_too():
    points = Points(["1 <= a <= 10**6", "1 <= b <= 10**6"], {"a": (1, 10**6), "b": (1, 10**6)}, {"a": 9, "b": 9})
    assert len(points) > 1_000
    for rare in ("a != 1", "b != 1", "a != 10**6", "not (a <= 8 and b <= 8)"):
        assert points.against(rare, "always") is not None


def test_proved_and_decided():
    answers = {answer: scored(session(Step("n >= 2")), [Answer(answer)])[0] for answer in ("always", "depends", "late")}
    assert {answer: (each.proved, each.decided) for answer, each in answers.items()} == {
        "always": (False, True),
        "depends": (False, True),
        "late": (False, False),
    }
    assert scored(session(Step("n >= 1")), [Answer("always")])[0].proved


@pytest.mark.parametrize("each", TEXTBOOK, ids=lambda each: each.name)
def test_all_points_of_a_textbook_domain_are_tried(each):
    assert math.prod(high - low + 1 for low, high in each.bounds.values()) <= EVERY_POINT
    points = Points(each.declared, each.bounds, each.example)
    question = each.steps[0].ask
    tried = {
        side for side, claim in ((True, "never"), (False, "always")) if points.against(question, claim) is not None
    }
    assert tried == sides(each)


def test_the_textbook_has_facts_of_every_kind():
    kinds = list(map(sides, TEXTBOOK))
    assert len(kinds) >= 40
    assert min(kinds.count(frozenset(kind)) for kind in ({True}, {False}, {True, False})) >= 2


def test_the_first_point_keeps_clear_of_sizes_0_and_1():
    assert first_point(["n >= 0", "m >= 0", "n <= m"], {"n": (0, 4), "m": (0, 4)}) == {"n": 2, "m": 2}
    assert first_point(["0 <= n <= 1"], {"n": (0, 1)}) == {"n": 0}
