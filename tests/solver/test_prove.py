from __future__ import annotations

import pytest

from shapeproof.constraints.formulas import ge, le
from shapeproof.constraints.meaning.evaluate import holds
from shapeproof.constraints.syntax.text import parse_formula as parse
from shapeproof.constraints.terms import maximum, minimum, symbol, unknown
from shapeproof.solver import prove
from shapeproof.solver.budget import Budget
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import decide, truth
from tests.solver import corpus

SMALL = Budget(rlimit=50_000, exhaustion_points=1_000)


def facts(*texts, budget=None):
    return Facts(map(parse, texts), budget)


@pytest.mark.quick
@pytest.mark.parametrize(("text", "given"), corpus.PROVED, ids=[text[:60] for text, _ in corpus.PROVED])
def test_proved(text, given):
    assert prove(text, given=given).status == "proved"


@pytest.mark.quick
@pytest.mark.parametrize(("text", "given", "witness"), corpus.REFUTED)
def test_refuted_with_a_point_that_evaluation_confirms(text, given, witness):
    verdict = prove(text, given=given)
    assert (verdict.status, verdict.witness) == ("refuted", witness)
    assert all(holds(parse(fact), witness) for fact in given)


@pytest.mark.quick
@pytest.mark.parametrize(("text", "given"), corpus.UNDECIDED)
def test_undecided_is_said_with_what_was_tried_and_spent(text, given):
    verdict = prove(text, given=given, budget=SMALL)
    assert verdict.status == "undecided"
    assert "Z3" in verdict.reason
    assert verdict.spent >= SMALL.rlimit
    assert verdict.witness is None


def test_contradictory_facts_prove_nothing_and_are_named():
    verdict = prove("n == 1", {"n": (3, 9)}, given=["n % 2 == 0", "m >= 0", "n % 2 == 1"])
    assert (verdict.status, verdict.core) == ("vacuous", ("n % 2 == 0", "n % 2 == 1"))
    answer = truth(parse("n == 1"), facts("n >= 3", "n <= 2"))
    assert answer.vacuous
    assert answer.always is None


def test_a_divisor_that_may_be_zero_is_reported_not_assumed():
    verdict = prove("n // k <= n", {"n": (1, 9), "k": (0, 9)})
    assert verdict.status == "refuted"
    assert verdict.witness["k"] == 0
    assert verdict.evidence.detail == "division by zero"


def test_a_guarded_division_is_no_division_by_zero():
    assert prove("k == 0 or n // k <= n", {"n": (1, 9), "k": (0, 9)}).status == "proved"
    assert prove("n // k <= n or k == 0", {"n": (1, 9), "k": (0, 9)}).status == "refuted"


def test_truth_says_always_never_or_depends_with_a_point_for_each_side():
    known = facts("h % 4 == 0", "h >= 8")
    assert truth(parse("h // 4 >= 2"), known).always is True
    assert truth(parse("h == 6"), known).always is False
    depends = truth(parse("h == 8"), known)
    assert depends.always is None
    assert not depends.undecided
    assert depends.witness_true == {"h": 8}
    assert holds(parse("h % 4 == 0 and h > 8"), depends.witness_false)


def test_two_samples_that_disagree_settle_it_at_once():
    known = facts("1 <= b <= 64", "8 <= h <= 1024")
    assert truth(parse("b*h >= 4096"), known).status == "depends"
    assert known.ledger.queries == 0


def test_a_symbol_that_no_fact_mentions_is_any_integer():
    assert truth(parse("stranger >= 0"), facts("n >= 1")).status == "depends"
    assert truth(parse("stranger*stranger >= 0"), facts("n >= 1")).always is True


def test_an_opaque_function_is_equal_on_equal_arguments_and_otherwise_unknown():
    value = unknown("f", symbol("n"))
    known = facts("n >= 1")
    known.learn(ge(value, 3))
    assert truth(ge(unknown("f", symbol("n") + 2 - 2), 2), known).always is True
    assert truth(ge(value, 4), known).undecided


def test_an_undecided_side_is_not_claimed():
    answer = truth(parse("a**3 + b**3 != c**3"), facts("a >= 1", "b >= 1", "c >= 1", budget=SMALL))
    assert answer.undecided
    assert answer.always is None
    assert answer.witness_true is not None


def test_the_swin_corpus_in_order_is_decided_without_asking_z3():
    known = facts(*corpus.SWIN_DOMAIN)
    answers = []
    for decision in corpus.swin():
        answers.append(truth(decision, known).status)
        known.learn(decision)
    assert {word: answers.count(word) for word in set(answers)} == {"always": 428, "depends": 9}
    assert known.ledger.queries == 0


def test_what_is_assumed_holds_only_in_the_fork_that_assumes_it():
    trunk = facts("1 <= b <= 8")
    branch = trunk.fork()
    branch.learn(parse("b != 1"))
    assert truth(parse("b == 1"), branch).always is False
    assert truth(parse("b == 1"), trunk).status == "depends"


def test_sums_of_many_sizes_need_no_solver():
    known = Facts(parse(f"0 <= u{index} <= 64") for index in range(40))
    total = sum((symbol(f"u{index}") for index in range(1, 40)), symbol("u0"))
    assert decide(le(total, 40 * 64), known).status == "proved"
    assert known.ledger.queries == 0


def test_many_prefix_sums_need_no_solver():
    known = facts("off >= 0")
    for index in range(128):
        known.learn(parse(f"0 <= l{index} <= 64"))
        known.learn(parse(f"off + l{index} <= n"))
        assert truth(parse(f"l{index} <= n"), known).always is True
    assert truth(parse("off + l77 < n + 1"), known).always is True
    assert known.ledger.queries == 0


def test_integers_beyond_64_bits():
    assert prove(f"n + {10**40} > {10**40}", {"n": (1, None)}).status == "proved"
    assert prove(f"a*a < {2**62}", {"a": (0, 2**32)}).status == "refuted"


@pytest.mark.parametrize("depth", [50, 5_000])
def test_terms_nested_deep_neither_crash_nor_hang(depth):
    size = symbol("h")
    for index in range(depth):
        size = maximum(1, (size - 1) // 3 + 1) if index % 2 else minimum(size + 6, 7 * symbol("k"))
    known = facts("1 <= h <= 4096", "k >= 1", budget=Budget(rlimit=100_000))
    assert truth(ge(size, 1), known).always is True


def test_the_same_question_has_the_same_answer_and_cost_whatever_was_asked_before():
    question = "a % (b*c) % b == a % b or a*b*c == 5040*d"

    def answer(*before):
        known = facts("b >= 1", "c >= 1", "x*y >= 7", budget=SMALL)
        for text in before:
            truth(parse(text), known)
        spent = known.ledger.rlimit
        return decide(parse(question), known), known.ledger.rlimit - spent

    assert answer() == answer("x*x*y - 3*y <= a", "b*c % 7 == 2")


def test_the_ledger_says_who_answered():
    known = facts("h % 4 == 0", "1 <= h <= 100")
    decide(parse("h % 2 == 0"), known)
    decide(parse("h >= 50"), known)
    said = [(entry.verdict.evidence.step, entry.verdict.status) for entry in known.ledger.entries]
    assert said == [("facts", "proved"), ("evaluation", "refuted")]
