from __future__ import annotations

import pytest

from shapeproof.constraints.meaning.intervals import Interval
from shapeproof.constraints.syntax.text import parse_formula as parse
from shapeproof.constraints.syntax.text import parse_term
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import decide


def facts(*texts):
    return Facts(map(parse, texts))


@pytest.mark.quick
@pytest.mark.parametrize(
    ("given", "term", "simpler"),
    [
        (["h % 4 == 0"], "h//4*4 + h % 2", "h"),
        (["s0 == 2*d"], "s0//2 - d", "0"),
        (["s0 == 2*d"], "min(s0, 2*d + 5) - s0", "0"),
        (["s >= 1"], "min(128*s, 512*s)", "128*s"),
        (["n >= 1"], "max(1, n)", "n"),
        (["u*s % 8 == 0"], "3*u*s % 8", "0"),
        (["0 <= n", "n < m"], "n//m", "0"),
        (["b >= 1", "c >= 1"], "x//b//c - x//(b*c)", "0"),
        (["h % 4 != 0", "h >= 1", "h <= 7"], "h//8", "0"),
        (["a//b == c", "b >= 1"], "a//b - c", "0"),
        (["a == 3"], "a**3 + b", "b + 27"),
        (["2*x == 3*y"], "x % 3 + y % 2", "0"),
        (["x + y + z == 12", "x == y", "y == z"], "x", "4"),
        (["0 <= n <= 1000"], "int(n / 8)", "n//8"),
        (["p == q or p == q + 1", "p != q"], "p - q", "1"),
    ],
)  # fmt: skip
def test_terms_that_the_facts_make_equal_are_reduced_to_one(given, term, simpler):
    known = facts(*given)
    assert known.reduce(parse_term(term)) is known.reduce(parse_term(simpler))


@pytest.mark.quick
@pytest.mark.parametrize(
    ("given", "name", "interval"),
    [
        (["b >= 1", "b != 1"], "b", Interval(2, None)),
        (["min(h//4, w//4) > 4"], "w", Interval(20, None)),
        (["h % 4 == 0", "10 <= h <= 21"], "h", Interval(12, 20)),
        (["u <= a*b", "0 <= a <= 3", "0 <= b <= 5"], "u", Interval(None, 15)),
        (["a*b >= 7", "0 <= a <= 2", "b >= 0"], "b", Interval(4, None)),
        (["x == 3 or 5 <= x <= 6"], "x", Interval(3, 6)),
        (["not (x == 1 and y == 2)", "y == 2", "x >= 1"], "x", Interval(2, None)),
        (["x + y <= 10", "x >= 1", "y >= 2"], "y", Interval(2, 9)),
        (["max(a, b) <= 7"], "a", Interval(None, 7)),
        (["(x - 1)//2 + 1 >= 5"], "x", Interval(9, None)),
        (["x == 2*y + 1", "3 <= y <= 4"], "x", Interval(7, 9)),
        (["x != 0", "x*y == 0", "y <= 8"], "y", Interval(0, 0)),
    ],
)
def test_bounds_move(given, name, interval):
    assert facts(*given).range_of(name) == interval
    assert facts(*reversed(given)).range_of(name) == interval


def test_facts_are_kept_as_they_were_learned():
    known = facts("b >= 1")
    known.learn(parse("b != 1"))
    known.learn(parse("b >= 0"))
    assert known.formulas == (parse("b >= 1"), parse("b != 1"), parse("b >= 0"))


def test_samples_satisfy_all_facts_and_use_the_symbols_of_the_user():
    known = facts("h % 4 == 0", "h//4 >= 5", "w == 2*h", "u0 <= h*w", "u0 >= 0")
    assert known.samples()
    for point in known.samples():
        assert set(point) == {"h", "w", "u0"}
        assert point["h"] % 4 == 0
        assert point["h"] >= 20
        assert point["w"] == 2 * point["h"]
        assert 0 <= point["u0"] <= point["h"] * point["w"]


def test_a_sample_is_evaluated_before_it_is_believed():
    known = facts("100 <= n <= 200")
    known.add_sample({"n": 150})
    known.add_sample({"n": 7})
    assert {"n": 150} in known.samples()
    assert {"n": 7} not in known.samples()


def test_a_sample_of_fewer_facts_gets_values_for_what_is_new():
    known = facts("1 <= b <= 8")
    known.add_sample({"b": 5})
    known.learn(parse("c == 3*b"))
    known.learn(parse("d % 7 == 2"))
    assert any(point["b"] == 5 for point in known.samples())
    assert all(point["c"] == 3 * point["b"] and point["d"] % 7 == 2 for point in known.samples())


def test_a_sample_may_leave_out_what_follows_from_it():
    known = facts("0 <= u <= 9", "v == u", "0 <= v <= 9", "w == 2*u + 1", "w >= 3")
    known.add_sample({"u": 4})
    assert {"u": 4, "v": 4, "w": 9} in known.samples()
    known.add_sample({"u": 0})
    assert all(point["u"] != 0 for point in known.samples())


def test_contradiction():
    assert not facts("n >= 1").contradictory
    assert facts("n >= 1", "n <= 0").contradictory
    assert facts("a*a*a == 5", "0 <= a <= 100").contradictory
    assert facts("x < y", "y < z", "z < x").contradictory
    assert facts("n // 0 == 1").contradictory
    box = ("-3 <= x <= 3", "-3 <= y <= 3", "-3 <= z <= 3")
    assert facts(*box, "x % 2 == 0", "x*y == z + 1", "y >= 1 and x <= z and x**9 < z").contradictory


def test_a_fact_that_divides_says_that_its_divisor_is_not_zero():
    assert decide(parse("d != 0"), facts("n // d == 3")).status == "proved"
    assert decide(parse("d != 0"), facts("d == 0 or n // d == 3")).status == "refuted"


def test_forks_learn_alone():
    trunk = facts("n >= 1")
    branch = trunk.fork()
    branch.learn(parse("n >= 10"))
    trunk.learn(parse("n <= 5"))
    assert (trunk.range_of("n"), branch.range_of("n")) == (Interval(1, 5), Interval(10, None))
    assert not trunk.contradictory
    assert not branch.contradictory
    assert branch.formulas == (parse("n >= 1"), parse("n >= 10"))


def test_learning_what_is_known_changes_nothing():
    known = facts("h % 4 == 0", "h >= 8")
    before = known.known
    known.learn(parse("h % 2 == 0"))
    known.learn(parse("h//4 != 1"))
    assert known.known is before
    assert len(known.formulas) == 4


def test_the_order_of_facts_does_not_matter_to_what_they_say():
    texts = ["h % 4 == 0", "h == 2*w", "w >= 5", "w <= 9", "u == h*w - 40"]
    ranges = facts(*texts).ranges
    assert ranges["h"] == Interval(12, 16)
    assert ranges["w"] == Interval(6, 8)
    assert all(facts(*texts[index:], *texts[:index]).ranges == ranges for index in range(len(texts)))
