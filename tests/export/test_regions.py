"""Which sizes one program serves: random programs, and faults that they showed."""

from __future__ import annotations

import pytest
from hypothesis import given, note

from tests.export.random_programs import MATRIX, PAIR, Program, few, judge, programs, wide_programs

DIVIDED = {
    "and another outcome": "return x + 1 if a // (b - 3) > 1 else x + 2",
    "and the same outcome": "return x + 1 if a // (b - 3) > 1 else x + 1",
    "within a divisor": "return x + 1 if 7 // (a // (b - 3)) > 1 else x + 1",
    "as a remainder": "return x * (1 if a % (b - 3) == 0 else 1)",
    "in one region only": "return x + b // (b - 3) if a > 2 else x",
    "where it is not asked": "return x if b == 3 else x + 1 if a // (b - 3) > 1 else x + 1",
}


@pytest.mark.parametrize("branches", ["error", "split"])
@pytest.mark.parametrize("name", DIVIDED)
def test_where_a_question_is_not_defined_is_not_passed_over(name, branches):
    """The divisor is zero inside the range: no corner shows it."""
    program = Program(MATRIX, [DIVIDED[name]], [range(1, 9), range(9)], (2, 5))
    report = program.check(branches=branches)
    assert report.status == ("proved" if branches == "split" and not program.raising else "refuted"), str(report)
    judge(program, report)


def test_what_is_explored_anew_serves_the_example():
    """The fault: a trace on torch's general path left fewer findings, and one of them was at the example."""
    body = [
        "x = x[2:]",
        "if 2 * x.shape[0] // (a - 1) > a // k - max(2, x.shape[0]) or k - a < b % 3 // 2:",
        "    x.mul_(y)",
        "    if b // 3 > b // 3 % 2 % k:",
        "        z = x.t().contiguous(); z.add_(1); x = x + z.sum()",
        "    else:",
        "        z = x[:1].reshape(-1); z.mul_(2); x = x + z.sum()",
        "        x = x.squeeze(0).reshape(-1, 2)",
        "else:",
        "    z = x[:3].reshape(-1); z.mul_(2); x = x + z.sum()",
        "    if not (max(3, a) > k):",
        "        x, y = y, x",
        "    else:",
        "        z = x[:4].reshape(-1); z.mul_(2); x = x + z.sum()",
        "        x = x.squeeze(0).reshape(-1, 2)",
        "return x, y",
    ]
    program = Program(PAIR, body, [range(5), range(1, 4), range(1, 3)], (3, 1, 1))
    report = program.check()
    assert report.status == "refuted", str(report)
    judge(program, report)


def test_what_is_undecided_at_one_size_does_not_hide_what_is_wrong_at_others():
    """Where there are no rows nothing differs, and no proof says so; one declaration would settle both."""
    body = ["return x + (1 if 1 <= a < 4 else 2 if a % 2 else 3)"]
    program = Program(MATRIX, body, [range(7), range(3, 5)], (3, 4))
    report = program.check()
    assert report.status == "refuted", str(report)
    judge(program, report)


def test_an_undecided_point_hides_no_refutation():
    """The fault: at (1, 0) other operators give the same nothing, which is undecided, and hid that (2, 1) differs."""
    body = ["if b < a:", "    x = x * a", "return x + 1"]
    program = Program(MATRIX, body, [range(4), range(4)], (0, 0))
    report = program.check()
    judge(program, report)
    assert report.status == "refuted"
    (diagnostic,) = report.diagnostics
    assert dict(diagnostic.witness) == {"x.shape[0]": 2, "x.shape[1]": 1}


def judged(program, **options):
    """Hold the report on a program against every point of its box."""
    note(str(program))
    report = program.check(**options)
    note(str(report))
    judge(program, report)


@few(4)
@given(programs())
def test_a_verdict_is_true_at_every_point_of_the_box(program):
    judged(program)


@few(25)
@given(wide_programs())
def test_a_verdict_on_a_wide_program_is_true_at_every_point_of_the_box(program):
    judged(program)


@few(16)
@given(programs())
def test_the_regions_of_a_random_program_partition_its_box(program):
    judged(program, branches="split")


@few(16)
@given(wide_programs())
def test_the_regions_of_a_wide_program_partition_its_box(program):
    judged(program, branches="split")


@pytest.mark.slow
@few(2)
@given(wide_programs())
def test_the_regions_of_many_wide_programs_partition_their_boxes(program):
    judged(program, branches="split")


@pytest.mark.slow
@few(4)
@given(wide_programs())
def test_the_verdicts_on_many_wide_programs_are_true_at_every_point_of_their_boxes(program):
    judged(program)
