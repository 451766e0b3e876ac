"""Each question that the solver answers is one line of a log, for whoever listens."""

from __future__ import annotations

import bisect
import logging
import math

from shapeproof.constraints.formulas import ge, le
from shapeproof.constraints.reals import RealSymbol
from shapeproof.constraints.terms import maximum, minimum, symbol
from shapeproof.solver import Budget, Facts, decide, prove, truth
from shapeproof.solver.answers.wording import equals
from shapeproof.solver.ledger import one_ledger


def test_a_question_is_a_line(caplog):
    with caplog.at_level(logging.DEBUG, "shapeproof.questions"), one_ledger() as ledger:
        prove("n % 4 == 0", given=["n % 2 == 0", "n >= 1"])
        prove("n <= 9", {"n": (1, 9)})
        prove("a**3 + b**3 != c**3", {"a": (1, None), "b": (1, None), "c": (1, None)}, budget=Budget(rlimit=1000))
        prove("n > 3", {"n": (1, 8)}, given=["n % 2 == 0", "n % 2 == 1"])
    assert {record.name for record in caplog.records} == {"shapeproof.questions"}
    assert caplog.messages == [str(entry) for entry in ledger.entries]
    assert "refuted by evaluation at n = 2: n % 4 == 0, given 2 facts" in caplog.messages
    assert any(line.startswith("proved by ") for line in caplog.messages)
    assert any(line.startswith("undecided: ") for line in caplog.messages)
    assert not any("\n" in line for line in caplog.messages)


def test_nobody_hears_it_unasked(caplog):
    with caplog.at_level(logging.INFO, "shapeproof.questions"):
        prove("n <= 9", {"n": (1, 9)})
    assert caplog.messages == []


def test_a_long_formula_is_cut(caplog):
    with caplog.at_level(logging.DEBUG, "shapeproof.questions"):
        prove(" + ".join(f"symbol_{index} % 2" for index in range(100)) + " >= 0")
    assert 0 < len(caplog.messages[0]) < 1000


def test_whoever_listens_changes_no_answer(caplog):
    size = symbol("h")
    for index in range(200):
        size = maximum(1, (size - 1) // 3 + 1) if index % 2 else minimum(size + 6, 7 * symbol("k"))

    def answer(work):
        return truth(ge(size, 1), Facts([ge(symbol("k"), 1), ge(symbol("h"), 1)], budget=Budget(work=work))).always

    enough = bisect.bisect_left(range(2**20), 1, key=lambda work: answer(work) is True)
    with caplog.at_level(logging.DEBUG, "shapeproof.questions"):
        assert answer(enough) is True
    assert caplog.messages


def test_a_number_of_thousands_of_digits_is_written(caplog):
    with caplog.at_level(logging.DEBUG, "shapeproof.questions"):
        assert decide(le(symbol("x"), 10**5000), Facts([ge(symbol("x"), 10**5000)])).status == "refuted"
    assert "x = 0x" in caplog.messages[0]


def test_a_witness_that_is_no_number_is_written(caplog):
    with caplog.at_level(logging.DEBUG, "shapeproof.questions"):
        assert decide(equals(RealSymbol("v"), math.nan).negation, Facts([])).status == "refuted"
    assert "v = nan" in caplog.messages[0]
