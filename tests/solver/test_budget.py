"""Work is counted, and not timed: the same question costs the same everywhere, and hard ones stay cheap."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from shapeproof.constraints.syntax.text import parse_formula as parse
from shapeproof.solver.budget import Budget
from shapeproof.solver.facts import Facts
from shapeproof.solver.ledger import one_ledger
from shapeproof.solver.prove import decide, truth
from tests.solver import corpus

_ANSWERS = """
import hashlib
from shapeproof.constraints.syntax.text import parse_formula as parse
from shapeproof.solver.ledger import one_ledger
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import decide, truth
from tests.solver import corpus

with one_ledger() as ledger:
    known = Facts(map(parse, corpus.SWIN_DOMAIN))
    for decision in corpus.swin():
        if truth(decision, known).always is None:
            known.learn(decision)
    for text, given in corpus.PROVED:
        decide(parse(text), Facts(map(parse, given)))
print(ledger.spent)
for entry in ledger.entries:
    print(entry.formula, entry.verdict)
"""


@pytest.mark.thorough
def test_answers_witnesses_and_costs_do_not_depend_on_the_order_of_sets():
    outputs = set()
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", _ANSWERS],
            cwd=Path(__file__).parents[2],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        outputs.add(done.stdout)
    assert len(outputs) == 1


def test_an_answer_of_undecided_says_what_it_cost_and_stays_within_the_budget():
    text, given = corpus.UNDECIDED[0]
    for rlimit in (10_000, 100_000):
        verdict = decide(parse(text), Facts(map(parse, given), Budget(rlimit=rlimit, exhaustion_points=0)))
        assert verdict.status == "undecided"
        assert 0 < verdict.spent < 2 * rlimit


def test_what_facts_forks_and_new_facts_ask_is_written_into_one_ledger():
    with one_ledger() as ledger:
        first = Facts([parse("n >= 1")])
        decide(parse("n >= 0"), first.fork())
        decide(parse("m >= 0"), Facts([parse("m >= 1")]))
    decide(parse("k >= 0"), Facts([parse("k >= 1")]))
    assert [str(entry.formula) for entry in ledger.entries] == ["n >= 0", "m >= 0"]
    assert ledger.spent["questions"] == 2


def test_hard_questions_are_settled_without_trying_points_and_with_little_of_z3():
    for answer, formula, given in corpus.hard():
        with one_ledger() as ledger:
            assert truth(formula, Facts(given)).status == answer
        assert ledger.points == 0
        assert ledger.rlimit < 100_000


HARD = parse("a*b*c != 1001 or a + b + c == 31 or a*b + c > 140")


GIVEN = tuple(map(parse, ["a >= 2", "b >= 2", "c >= 2"]))


def asked(rlimit):
    """The verdict on a question for Z3, whose facts know nothing of earlier ones, and what all have cost so far."""
    facts = Facts(GIVEN).within(Budget(rlimit, 0))
    del facts.ledger.memo[Facts, GIVEN, Budget()]
    return decide(HARD, facts), dict(facts.ledger.spent)


def test_a_run_asks_z3_a_question_once_and_counts_it_each_time():
    with one_ledger() as ledger:
        (first, cost), (second, costs) = asked(200_000), asked(200_000)
        known = len(ledger.memo)
        asked(100_000)
        more = len(ledger.memo)
    assert (second, known) == (first, cost["z3_queries"])
    assert {name: 2 * each for name, each in cost.items()} == costs
    assert more > known
    assert not ledger.memo


def test_the_facts_that_a_run_begins_with_are_learned_once():
    with one_ledger():
        one, other = Facts(GIVEN), Facts(GIVEN)
        one.learn(parse("a >= 9"))
        assert (other.range_of("a").lower, Facts(GIVEN).known is other.known) == (2, True)
    assert Facts(GIVEN).known is not Facts(GIVEN).known
