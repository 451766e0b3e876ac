from __future__ import annotations

from shapeproof.constraints.syntax.text import parse_formula as parse
from shapeproof.solver.answers.blame import reasons
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import decide
from tests.solver import corpus


def chosen(texts, *given, weights=None):
    weighted = zip(map(parse, texts), weights or [0] * len(texts), strict=True)
    return [texts[index] for index in reasons(list(weighted), Facts(map(parse, given)))]


def test_what_follows_from_the_rest_is_no_reason():
    assert chosen(["n // 4 != 1", "n % 4 == 0", "4*(n//4) >= 2", "n % 2 == 0"], "n >= 2") == [
        "n // 4 != 1",
        "n % 4 == 0",
    ]


def test_what_the_facts_say_already_is_no_reason():
    assert chosen(["n >= 1", "n >= 0"], "n >= 2") == []


def test_of_two_that_say_the_same_the_light_one_is_kept():
    assert chosen(["n == 4*m", "n - m == 3*m"], weights=[5, 1]) == ["n - m == 3*m"]
    assert chosen(["n >= 5", "n > 4 and m >= 0"], "m >= 0", weights=[9, 1]) == ["n > 4 and m >= 0"]


def test_a_heavy_one_that_implies_light_ones_does_not_displace_them_unless_it_must_stay():
    assert chosen(["h % 2 == 0", "h % 4 == 0"], weights=[0, 9]) == ["h % 4 == 0"]


def test_what_is_undecided_is_kept():
    texts = ["a >= 1", "a**3 + b**3 != c**3"]
    assert chosen(texts, "b >= 1", "c >= 1") == texts


def test_eight_reasons_for_437_decisions():
    decisions = corpus.swin()
    domain = Facts(map(parse, corpus.SWIN_DOMAIN))
    kept = [decisions[index] for index in reasons([(decision, 0) for decision in decisions], domain)]
    assert len(kept) == 8
    known = domain.fork()
    for reason in kept:
        known.learn(reason)
    assert all(decide(decision, known).status == "proved" for decision in decisions)
