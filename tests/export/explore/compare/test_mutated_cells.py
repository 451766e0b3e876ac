"""Nothing is called proved by way of what differs: results that do not hold in a cell, and cells traced otherwise.

Settling in place (trace/calls/settle.py) runs one operator again; exploring (explore/explorer.py) traces a cell of its
own. If what the second run gives is changed, the decision stays open, or a finding is made of it.
"""

from __future__ import annotations

import dataclasses
import itertools

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, reject

from shapeproof.constraints.records.decisions import Kind
from shapeproof.constraints.syntax.text import parse_formula
from shapeproof.constraints.terms import constant
from shapeproof.export.declare.inputs import declare
from shapeproof.export.explore.beside_eager.replay import Eager
from shapeproof.export.explore.explorer import Explorer
from shapeproof.export.source.frames import Place
from shapeproof.export.trace import tracer
from shapeproof.export.trace.calls.settle import Call, settle
from shapeproof.export.trace.trial import Trial
from shapeproof.solver.facts import Facts
from tests.export.mutants import Unmutated, changes, mutated
from tests.export.random_programs import few
from tests.export.tracing import Traced, alike, outcome, serves
from tests.tiny_models import TINY

# ---------------------------------------------------------------------- results handed back


def fresh(_):
    return torch.zeros(2, 3)


GIVEN = {
    "a fresh tensor": fresh,
    "a view of the operand": lambda x: x[1:, :3],
    "another fresh tensor": lambda _: torch.ones(2, 3),
    "another dtype": lambda _: torch.zeros(2, 3, dtype=torch.float64),
    "another rank": lambda _: torch.zeros(2, 3, 1),
    "another size": lambda _: torch.zeros(2, 4),
    "another stride": lambda _: torch.zeros(3, 2).t(),
    "a stride that reaches one element twice": lambda _: torch.zeros(1, 3).expand(2, 3),
    "another offset": lambda _: torch.zeros(9)[3:].view(2, 3),
    "another layout": lambda _: torch.zeros(2, 3).to_sparse(),
    "a negative view": lambda _: torch._neg_view(torch.zeros(2, 3)),
    "another view": lambda x: x[:-1, :3],
    "a number": lambda _: 3,
    "another number": lambda _: 4,
    "a condition": lambda _: True,
    "nothing": lambda _: None,
}
SAME = {"another fresh tensor": "a fresh tensor"}


def is_settled(result, other, operand=lambda: torch.zeros(3, 4), *, either=False):
    """Whether a decision is forgotten of an operator that gives one thing, and another under the other answer."""
    trial = Trial(Facts([parse_formula("n >= 0")]), {"n": 4}, data=lambda _: False)
    trial.choose(parse_formula("n == 1"), Kind.ASSUMED, Place, fallback=False)
    x, y = torch.zeros(3, 4), operand()
    call = Call("a call", [x], [result(x)], lambda _: ([y], [other(y)]), constant, alias_or_copy=either)
    settle(trial, 0, 0, call)
    return not trial.steps


@pytest.mark.parametrize("one", GIVEN)
def test_a_decision_is_settled_only_where_the_operator_gives_the_same(one):
    settled = {other for other in GIVEN if is_settled(GIVEN[one], GIVEN[other])}
    alone = SAME.get(one, one)
    assert settled <= {name for name in GIVEN if SAME.get(name, name) == alone}
    assert settled or one in {"another layout", "a condition"}  # those are never settled


def test_a_region_that_was_read_does_not_change():
    """The fault: it learned a decision that the trial forgot, and was asked as if that were a fact."""
    trial = Trial(Facts([parse_formula("n >= 0")]), {"n": 4}, data=lambda _: False)
    read = trial.facts, trial.region
    trial.choose(parse_formula("n == 1"), Kind.ASSUMED, Place, fallback=False)
    trial.learn(parse_formula("n != 2"))
    assert trial.region.formulas[1:] == (parse_formula("n != 1"), parse_formula("n != 2"))
    assert [each.formulas for each in read] == [(parse_formula("n >= 0"),)] * 2


def test_a_decision_is_not_settled_where_the_operand_becomes_another():
    assert is_settled(fresh, fresh)
    for operand in (lambda: torch.zeros(3, 4, dtype=torch.int64), lambda: torch.zeros(4, 3), lambda: torch.zeros(12)):
        assert not is_settled(fresh, fresh, operand)


def test_an_operator_that_shares_or_copies_is_settled_whichever_it_does_and_for_nothing_else():
    def shared(x):
        return x.view(12)

    def copied(_):
        return torch.zeros(12)

    assert not is_settled(shared, copied)
    assert not is_settled(copied, shared)
    assert is_settled(shared, copied, either=True)
    assert is_settled(copied, shared, either=True)
    assert not any(is_settled(shared, other, either=True) for other in GIVEN.values())
    assert not is_settled(shared, copied, lambda: torch.zeros(4, 3), either=True)


# ---------------------------------------------------------------------- cells


def explored(tiny, place, random):
    """What exploring finds if the trace number `place` is of another program; that, and the main one."""
    model = tiny.model()
    inputs = declare(model, tiny.inputs(3), None, tiny.shapes())
    number, kept = itertools.count(), []

    def trace(trial, **how):
        program = tracer.trace(model, inputs, trial, **{**how, "in_place": False})
        if next(number) != place:
            return program
        found = Traced(inputs, program, trial)
        kept.append(Traced(inputs, mutated(found, *random.choice(list(changes(program)))).program, trial))
        return kept[0].program

    explorer = Explorer(Eager(model, inputs), trace, lambda _: None)
    exploration = explorer.run(inputs.facts())
    return exploration, kept


CELLS = {name: dataclasses.replace(TINY[name], sizes=range(1, 4)) for name in ("arithmetic", "layouts", "indexed")}


@pytest.mark.parametrize("name", CELLS)
def test_a_program_that_is_the_same_in_every_cell_is_all_there_is(name):
    found, kept = explored(CELLS[name], -1, None)
    assert found.traces > 1
    assert not kept
    assert not found.findings


@given(st.sampled_from(sorted(CELLS)), st.integers(1, 2), st.randoms(use_true_random=False))
@few(20)
def test_a_cell_that_is_traced_otherwise_is_a_finding(name, place, random):
    tiny = CELLS[name]
    try:
        found, kept = explored(tiny, place, random)
    except Unmutated:
        reject()
    if not kept:
        reject()
    if found.findings or found.narrowings or found.disagreement is not None:
        return
    for size in tiny.sizes:
        if serves(kept[0].trial, {"n": size}):
            got, want = (outcome(each, tiny.inputs(size)) for each in (kept[0].program, found.main.program))
            assert alike(got, want), size
