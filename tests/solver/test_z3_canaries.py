"""Facts about Z3 that the solver room relies on; a new release of Z3 must pass these before its version is allowed."""

from __future__ import annotations

import pytest
import z3

from shapeproof.solver.smt.ask import Answer, Core, Session

CUBES = "(declare-const a Int) (declare-const q Int) (assert (< (* 6 q) (* a (+ a 1) (+ a 2)) (+ (* 6 q) 6)))"
CHAIN = "(declare-const a Int) (declare-const b Int) (declare-const c Int) (assert (and (<= a b) (<= b c) (> a c)))"


SQUARE = """
(declare-const r Int) (declare-const q Int) (declare-const k Int)
(assert (= (+ (* r r) (* 12 r q) (* 36 q q) (* (- 6) k)) 0))
(assert (<= 1 r 5))
(assert (<= 0 k))
"""


@pytest.mark.parametrize("top", range(-7, 8))
@pytest.mark.parametrize("bottom", [-3, -2, -1, 1, 2, 3])
def test_div_leaves_a_remainder_that_is_not_negative(top, bottom):
    # so that Python's a // b is (div a b) where b > 0, and (div (- a) (- b)) where b < 0
    quotient = z3.simplify(z3.IntVal(top) / z3.IntVal(bottom)).as_long()
    assert 0 <= top - bottom * quotient < abs(bottom)
    floor = quotient if bottom > 0 else z3.simplify(z3.IntVal(-top) / z3.IntVal(-bottom)).as_long()
    assert floor == top // bottom


@pytest.mark.parametrize("limit", [10_000, 100_000])
def test_the_resource_limit_is_heeded_and_counted_alike_each_time(limit):
    # `a*(a+1)*(a+2) % 6 == 0` is among what Z3 alone does not decide
    sessions = [Session(CUBES, Core.SMT), Session(CUBES, Core.SMT)]
    assert [session.check(limit) for session in sessions] == [Answer.UNKNOWN] * 2
    assert sessions[0].spent == sessions[1].spent
    assert limit <= sessions[0].spent < limit + 5_000


def test_squares_are_divided_within_the_resource_limit():
    # with Z3's solver of Diophantine equations it takes minutes, in which neither its counter nor its clock is heeded
    session = Session(SQUARE, Core.SMT)
    assert session.check(20_000) is Answer.UNSAT
    assert session.spent < 20_000


@pytest.mark.thorough
@pytest.mark.parametrize("core", Core)
def test_many_contexts_in_one_process(core):
    # another project met crashes with many contexts in an older release
    assert all(Session(CHAIN, core).check(100_000) is Answer.UNSAT for _ in range(300))


def test_an_answer_does_not_depend_on_the_questions_before_it():
    box = "(declare-const a Int) (declare-const q Int) (assert (< 40 a 90)) (assert (= (* a q) 5040))"
    alone = Session(box, Core.SMT)
    alone.check(50_000)
    Session(CHAIN, Core.SMT).check(50_000)
    after = Session(box, Core.SMT)
    after.check(50_000)
    assert alone.integers(["a", "q"]) == after.integers(["a", "q"])
    assert alone.spent == after.spent


def test_the_two_cores_decide_different_questions():
    square = "(define-fun s () Int (+ u 10))(define-fun q () Int (div (* s s) s))"
    multiple = f"(declare-const u Int) (assert (>= u 0)) {square} (assert (not (= (- (* s s) (* s q)) 0)))"
    assert Session(multiple, Core.SMT).check(100_000) is Answer.UNKNOWN
    assert Session(multiple, Core.FULL).check(100_000) is Answer.UNSAT


def test_values_that_a_model_leaves_open_are_zero():
    session = Session("(declare-const a Int) (declare-const p Bool) (declare-const n Int) (assert (= n 3))", Core.SMT)
    assert session.check(10_000) is Answer.SAT
    assert (session.integers(["a", "n"]), session.booleans(["p"])) == ({"a": 0, "n": 3}, {"p": False})
