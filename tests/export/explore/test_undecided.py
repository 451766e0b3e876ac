"""What is undecided runs nowhere: a program that is given out does what eager does, or refuses."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, note
from torch.export import Dim

from shapeproof.constraints.errors import UsageError
from shapeproof.export import Budget, check
from shapeproof.export.explore import ladder
from shapeproof.export.limits import COSTLY_TRIES
from tests.agreement import RAISES, agree, outcome
from tests.export.random_programs import MATRIX, Program, built, few, indented, judge, probing_programs, wide_programs

NOTHING = Budget(rlimit=0, exhaustion_points=0)
MANY = 4
TRACES = 3


def asking(line):
    """A model that asks so much of data that not every answer is looked into."""
    lines = [text.format(index=index) for index in range(MANY) for text in line]
    forward = ["def forward(self, x, u):", *indented([*lines, "return x"])]
    return built("\n".join(["class Model(torch.nn.Module):", *indented(forward), ""]))


@pytest.fixture
def few_traces(monkeypatch):
    """Exports that take only so many traces."""
    monkeypatch.setattr(ladder, "TRACE_LIMIT", TRACES)


@pytest.mark.quick
@pytest.mark.usefixtures("few_traces")
@pytest.mark.parametrize("branches", ["error", "split"])
def test_data_that_answer_otherwise_are_refused(branches):
    """The fault: the program that takes every number for positive ran, and differed, where one is not."""
    mod = asking(["k = u[{index}].item()", "if k > 0: x = x + k"])
    x, u = torch.ones(4), torch.ones(MANY, dtype=torch.int64)
    other = torch.where(torch.arange(MANY) == 2, 0, u)
    report = check(mod, (x, u), dynamic_shapes=({0: Dim("n", min=0, max=8)}, None), branches=branches)
    assert report.status == "undecided", str(report)
    run = report.program.module()
    assert agree(mod, run, (x, u))
    assert outcome(run, (x, other)) == RAISES
    if branches == "error":
        after = report.program.run_decompositions().module()
        assert outcome(after, (x, other)) == RAISES


@pytest.mark.quick
@pytest.mark.usefixtures("few_traces")
@pytest.mark.parametrize("branches", ["error", "split"])
def test_where_data_cannot_be_refused_there_is_no_program(branches):
    """The number is used by nothing but the question, so that no graph holds it."""
    mod = asking(["if u[{index}].item() > 0: x = x + {index}"])
    report = check(mod, (torch.ones(4), torch.ones(MANY, dtype=torch.int64)), branches=branches)
    assert (report.status, report.program) == ("undecided", None)
    assert "no program is given out" in str(report)
    assert "for every input" not in str(report)


@pytest.mark.thorough
def test_what_the_solver_does_not_show_to_be_covered_is_refused():
    """The fault: with sizes left, and none of them found, the export ended in a UsageError."""
    many = "if x.shape[0] * x.shape[1] > 4: return x + 3"
    body = ["if x[1:, 1:].t().is_contiguous():", "    return x + 1", many, "return x + 2"]
    program = Program(MATRIX, body, [range(4), range(4)], (2, 1))
    report = program.check(branches="split", budget=NOTHING)
    assert report.status == "undecided"
    assert "what does the model do where" in str(report)
    judge(program, report)
    with pytest.raises(UsageError, match="undecided whether they cover"):
        report.program.merged()


@pytest.mark.thorough
def test_sizes_that_are_simplified_away_are_not_asked_about():
    """The fault: `what does the model do where `False`?`."""
    body = ["z = x[:, 1:].t()", "if z.is_contiguous():", "    return z + 1", "return z + 2"]
    program = Program(MATRIX, body, [range(4), range(4)], (2, 1))
    report = program.check(branches="split", budget=NOTHING)
    assert report.status == "undecided"
    said = " ".join(str(report).split())
    assert "False" not in said
    assert "the solver did not prove within its budget that the graph's assertions imply it" in said
    judge(program, report)


def limited(program, monkeypatch, **options):
    """Hold what an export says, cut short by a budget and a number of traces, against every point."""
    monkeypatch.setattr(ladder, "TRACE_LIMIT", TRACES)
    note(str(program))
    report = program.check(budget=NOTHING, **options)
    note(str(report))
    judge(program, report, limited=True)


@pytest.mark.thorough
@few(16)
@given(probing_programs().filter(lambda program: not program.raising))
def test_an_export_cut_short_gives_a_program_that_is_right_or_refuses(program):
    with pytest.MonkeyPatch.context() as monkeypatch:
        limited(program, monkeypatch)


@pytest.mark.thorough
@few(25)
@given(wide_programs().filter(lambda program: not program.raising))
def test_a_split_cut_short_gives_programs_that_are_right_or_refuse(program):
    with pytest.MonkeyPatch.context() as monkeypatch:
        limited(program, monkeypatch, branches="split")


class Chunks(torch.nn.Module):
    """A list of chunks, whose length follows from the number of rows; each row gives the same in any chunk."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(2).eval()

    def forward(self, x):
        count = -(-x.shape[0] // 16)
        return torch.cat([self.norm(each) for each in x.chunk(count)])


def test_a_line_that_stays_undecided_is_not_traced_for_each_of_its_values():
    """The fault: TabNet's ghost batch norm took 32 traces, and its finding named the last of 42 lengths."""
    shapes = ({0: Dim("rows", min=1, max=4096)},)
    report = check(Chunks(), (torch.randn(5, 2),), dynamic_shapes=shapes)
    assert (report.status, report.statistics["traces"]) == ("undecided", 1 + COSTLY_TRIES), str(report)
    (finding,) = [each for each in report.diagnostics if each.severity != "note"]
    assert "max=16" in str(report.repair().code)
    assert "`aten.batch_norm.default` is given another `input`" in str(finding)
    run = report.program.module()
    assert agree(Chunks().eval(), run, (torch.randn(16, 2),))
    assert outcome(run, (torch.randn(17, 2),)) == RAISES
