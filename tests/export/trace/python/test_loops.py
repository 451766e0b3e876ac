"""A loop over a size is one program where its steps are one body, and never a wrong one where they are not."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.export import Dim

from shapeproof.constraints.errors import InternalError
from shapeproof.export import check
from shapeproof.export.trace.python import loops, rolled
from tests.agreement import agree
from tests.export.tracing import with_loops
from tests.loop_models import ONE_BODY, FromANumber, Neighbours, OfNoState, OfTheLastStep, Recurrent
from tests.other_loop_models import (
    NOT_ONE_BODY,
    ByAClosure,
    ByTheStep,
    InReverse,
    Leaving,
    OfItsOwnRows,
    ReadAfterwards,
    ReadAsAListByAClosure,
    ReadWhereJoiningFails,
    TheSameNameAround,
)


def checked(model, least=1):
    shapes = {"x": {0: Dim("b", min=1, max=3), 1: Dim("n", min=least, max=24)}}
    return check(model, (torch.rand(2, 5, 4),), dynamic_shapes=shapes)


def is_scan(program):
    return any(node.target is torch.ops.higher_order.scan for node in program.graph.nodes)


def agrees(model, program, least=1):
    sizes = itertools.product(range(1, 4), (*range(least, 6), 24))
    return all(agree(model, program.module(), (torch.rand(b, n, 4),)) for b, n in sizes)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ONE_BODY)
def test_a_loop_whose_steps_are_one_body_is_one_program(kind):
    model = kind().eval()
    report = checked(model)
    assert report.status == "proved", str(report)
    assert is_scan(report.program)
    assert agrees(model, report.program)


def test_a_loop_of_no_state_over_the_last_dim():
    model = OfNoState().eval()
    shapes = {"x": {0: Dim("b", min=1, max=3), 2: Dim("n", min=1, max=9)}}
    report = check(model, (torch.rand(2, 4, 5),), dynamic_shapes=shapes)
    assert report.status == "proved", str(report)
    assert is_scan(report.program)
    sizes = itertools.product(range(1, 4), range(1, 10))
    assert all(agree(model, report.program.module(), (torch.rand(b, 4, n),)) for b, n in sizes)
    assert any("one operator, `scan`" in note for note in report.notes)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", [FromANumber, Neighbours, OfTheLastStep])
def test_a_loop_may_have_no_step(kind):
    report = checked(kind().eval(), least=0)
    if kind is FromANumber:  # it returns the number then
        assert report.status == "refuted"
        return
    assert report.status == "proved", str(report)
    assert agrees(kind().eval(), report.program, least=0)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", NOT_ONE_BODY)
def test_other_loops_are_never_taken_for_one_body(kind):
    """The law: what is proved does what eager does. None of these is proved; each is refuted by its number of steps."""
    report = checked(kind())
    assert report.status != "proved" or agrees(kind(), report.program)
    assert report.program is None or not is_scan(report.program)


@pytest.mark.thorough
def test_a_program_with_such_a_loop_is_saved_and_taken_apart(tmp_path):
    model = Recurrent().eval()
    program = checked(model).program
    torch.export.save(program, tmp_path / "loop.pt2")
    for form in (torch.export.load(tmp_path / "loop.pt2"), program.run_decompositions()):
        assert agrees(model, form)


def test_a_function_is_written_over_only_where_a_loop_can_be():
    assert [kind for kind in (*ONE_BODY, OfNoState) if with_loops(kind.forward) is None] == []
    kept = {kind for kind in NOT_ONE_BODY if with_loops(kind.forward) is None}
    assert {
        ReadAsAListByAClosure,
        ReadWhereJoiningFails,
        ByTheStep,
        ReadAfterwards,
        InReverse,
        OfItsOwnRows,
        ByAClosure,
        Leaving,
        TheSameNameAround,
    } <= kept


def test_a_function_whose_source_is_not_its_code_stays():
    """The fault: the source was recorded, and eager runs the code: of a file before it was edited, or patched."""
    forward = type(Recurrent.forward)(Recurrent.forward.__code__, Recurrent.forward.__globals__)
    assert with_loops(forward) is not None
    names = ("ones" if each == "zeros" else each for each in forward.__code__.co_names)
    forward.__code__ = forward.__code__.replace(co_names=tuple(names))
    assert with_loops(forward) is None


@pytest.mark.parametrize("kind", ONE_BODY)
def test_with_a_plain_number_a_function_written_over_does_the_same(kind):
    model, x = kind().eval(), torch.rand(2, 5, 4)
    names = {loops.CAN_ROLL: lambda _: False, loops.JOIN: lambda join, rows, *more, **by: join(rows, *more, **by)}
    forward = type(kind.forward)(with_loops(kind.forward), {**kind.forward.__globals__, **names})
    torch.testing.assert_close(forward(model, x.clone()), model(x.clone()), rtol=0, atol=0)


def test_a_mistake_of_ours_in_a_loop_is_not_hidden_behind_the_trace_with_each_step(monkeypatch):
    """The fault: any error while a loop was recorded by one step led to the other trace, in silence."""
    monkeypatch.setattr(rolled, "Index", {}.__getitem__)
    with pytest.raises(InternalError, match="KeyError: 0"):
        checked(Recurrent().eval())


class DroppedOnce(torch.nn.Module):
    """Of a dropout in evaluation eager returns the operand: without a step the two results are one tensor."""

    def forward(self, x):
        first = x.sum(1)
        last = torch.nn.functional.dropout(first, 0.5, training=False)
        for step in range(x.shape[1]):
            last = last * 2 + x[:, step]
        return first, last


def test_a_loop_without_steps_does_not_part_what_a_dropout_leaves_one():
    report = checked(DroppedOnce(), least=0)
    eager = DroppedOnce()(torch.ones(2, 0, 4))
    assert eager[0].data_ptr() == eager[1].data_ptr()
    assert report.status != "proved" or not is_scan(report.program)
