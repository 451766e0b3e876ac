"""Which sizes one program serves: random programs, and faults that they showed."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, note
from torch.export import Dim

from shapeproof.export import check
from tests.agreement import agree
from tests.export.random_programs import (
    MATRIX,
    PAIR,
    Program,
    few,
    judge,
    probing_programs,
    programs,
    wide_programs,
)

DIVIDED = {
    "and another outcome": "return x + 1 if a // (b - 3) > 1 else x + 2",
    "and the same outcome": "return x + 1 if a // (b - 3) > 1 else x + 1",
    "within a divisor": "return x + 1 if 7 // (a // (b - 3)) > 1 else x + 1",
    "as a remainder": "return x * (1 if a % (b - 3) == 0 else 1)",
    "in one region only": "return x + b // (b - 3) if a > 2 else x",
    "where it is not asked": "return x if b == 3 else x + 1 if a // (b - 3) > 1 else x + 1",
}


@pytest.mark.thorough
@pytest.mark.parametrize("branches", ["error", "split"])
@pytest.mark.parametrize("name", DIVIDED)
def test_where_a_question_is_not_defined_is_not_passed_over(name, branches):
    """The divisor is zero inside the range: no corner shows it."""
    program = Program(MATRIX, [DIVIDED[name]], [range(1, 9), range(9)], (2, 5))
    report = program.check(branches=branches)
    assert report.status == ("proved" if branches == "split" and not program.raising else "refuted"), str(report)
    judge(program, report)


@pytest.mark.thorough
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


@pytest.mark.thorough
def test_what_is_undecided_at_one_size_does_not_hide_what_is_wrong_at_others():
    """Where there are no rows nothing differs, and no proof says so; one declaration would settle both."""
    body = ["return x + (1 if 1 <= a < 4 else 2 if a % 2 else 3)"]
    program = Program(MATRIX, body, [range(7), range(3, 5)], (3, 4))
    report = program.check()
    assert report.status == "refuted", str(report)
    judge(program, report)


@pytest.mark.thorough
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


@pytest.mark.thorough
@few(4)
@given(programs())
def test_a_verdict_is_true_at_every_point_of_the_box(program):
    judged(program)


@pytest.mark.thorough
@few(25)
@given(wide_programs())
def test_a_verdict_on_a_wide_program_is_true_at_every_point_of_the_box(program):
    judged(program)


@few(16)
@given(programs())
def test_the_regions_of_a_random_program_partition_its_box(program):
    judged(program, branches="split")


@pytest.mark.thorough
@few(16)
@given(wide_programs())
def test_the_regions_of_a_wide_program_partition_its_box(program):
    judged(program, branches="split")


@pytest.mark.thorough
@few(25)
@given(probing_programs())
def test_a_verdict_on_a_program_that_asks_for_layouts_is_true_at_every_point_of_the_box(program):
    judged(program)


@pytest.mark.thorough
@few(25)
@given(probing_programs())
def test_the_regions_of_a_program_that_asks_for_layouts_partition_its_box(program):
    judged(program, branches="split")


@pytest.mark.thorough
@few(16)
@given(programs().filter(lambda program: not program.raising))
def test_the_number_of_regions_does_not_depend_on_the_example(program):
    note(str(program))
    ends = {program.box[0], program.box[len(program.box) // 2], program.box[-1], program.example}
    reports = [replace(program, example=example).check(branches="split") for example in ends]
    assert len({(report.status, len(report.regions)) for report in reports}) == 1, list(map(str, reports))


@pytest.mark.thorough
def test_a_program_of_one_size_alone_is_merged_into_one_that_serves_it():
    """The fault: explored from ten on, its program served no other size, and the one that serves ten came later."""

    class Pairs(torch.nn.Module):
        def forward(self, x):
            n = x.shape[0]
            if n == 10:
                return x.reshape(2, 5).sum(1)
            return x.reshape(2, -1).sum(1) if n <= 20 and n % 2 == 0 else x * 2

    shapes = ({0: Dim("n", min=0, max=60)},)
    reports = [check(Pairs(), (torch.ones(n),), dynamic_shapes=shapes, branches="split") for n in (10, 4, 40)]
    assert [report.status for report in reports] == ["proved"] * 3
    assert len({frozenset(report.regions) for report in reports}) == 1
    run = reports[0].program.module()
    assert all(agree(Pairs(), run, (torch.randn(n),)) for n in range(61))


CONDITIONS = {
    "under a branch": (["if a > 2:", "    torch._check(b % 2 == 0)", "return x + 1"], (3, 2), "(a <= 2) or b % 2 == 0"),
    "under another branch of the model's": (
        ["if a <= 2:", "    return x + 1", "return x.view(2, -1)"],
        (1, 2),
        "a <= 2 or (a * b) % 2 == 0",
    ),
    "of a size that is left to torch": (["z = x.reshape(b, -1)", "return x"], (2, 2), "b != 0"),
}


@pytest.mark.thorough
@pytest.mark.parametrize("branches", ["error", "split"])
@pytest.mark.parametrize("name", CONDITIONS)
def test_a_diagnostic_names_the_whole_condition_under_which_eager_raises(name, branches):
    """The fault: a requirement that matters only where other sizes go that way was named alone."""
    body, example, served = CONDITIONS[name]
    program = Program(MATRIX, body, [range(5), range(5)], example)
    assert set(program.raising) == {(a, b) for a, b in program.box if not eval(served, {"a": a, "b": b})}  # noqa: S307
    report = program.check(branches=branches)
    judge(program, report)
    assert report.status == "refuted"
    assert "at some sizes" not in str(report)


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
