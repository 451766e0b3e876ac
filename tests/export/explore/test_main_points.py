"""Where the main program is traced, and replays that are not made twice."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

from shapeproof.constraints.syntax.text import parse_formula
from shapeproof.export import check
from shapeproof.export.declare.inputs import declare
from shapeproof.export.explore.beside_eager.forms import Form
from shapeproof.export.explore.beside_eager.replay import Eager
from shapeproof.export.explore.beside_eager.runner import Relation
from shapeproof.export.verify import verified
from shapeproof.solver.answers.witness import generic
from shapeproof.solver.facts import Facts
from tests.calling import Calls

N, M = Dim("n", min=1, max=9), Dim("m", min=1, max=9)


def beside(x, y):
    return torch.cat((x, y), 1)


def halves(x, y):
    return x.reshape(x.shape[0] // 2, 2, 4).sum(1) + torch.zeros(y.shape[0], 1, 4)


@pytest.mark.parametrize(
    ("function", "sizes", "most"),
    [(beside, (3, 3), 1), (halves, (4, 3), 2), (lambda x, y: (x + 1, y.sum(0)), (3, 5), 1)],
    ids=["equal", "even", "accepted"],
)
def test_no_trace_is_made_where_the_model_rejects_the_sizes(function, sizes, most):
    args, dims = tuple(torch.rand(size, 4) for size in sizes), ({0: N}, {0: M})
    report = check(Calls(function), args, dynamic_shapes=dims)
    slow = verified(Calls(function), declare(Calls(function), args, None, dims), in_place=False)
    assert report.status == slow.status
    assert report.statistics["traces"] <= most
    witnesses = [[each.witness for each in found.diagnostics] for found in (report, slow)]
    assert witnesses[0] == witnesses[1]


def test_a_generic_point_keeps_away_from_bounds_with_a_meaning():
    known = Facts(map(parse_formula, ("1 <= b <= 64", "32 <= h <= 256", "32 <= w <= 256")))
    point = generic(known, ["b", "h", "w"])
    assert len(set(point.values())) == 3
    assert 5 <= point["b"] < 32
    assert 48 <= min(point["h"], point["w"]) <= max(point["h"], point["w"]) < 64


@pytest.mark.parametrize("also", ["h % 32 == 0", "h <= 40", "h == w"])
def test_a_generic_point_stays_where_the_facts_want_it(also):
    known = Facts(map(parse_formula, ("32 <= h <= 256", "32 <= w <= 256", also)))
    assert known.contains(generic(known, ["h", "w"]))


class Counted(torch.nn.Module):
    runs = 0

    def forward(self, x):
        Counted.runs += 1
        return x * 2


def counted(calls):
    before = Counted.runs
    calls()
    return Counted.runs - before


def test_a_replay_is_made_once_for_each_point_program_and_demand():
    inputs = declare(Counted(), (torch.rand(3),), None, {"x": {0: N}})
    eager = Eager(Counted(), inputs)
    name = next(iter(inputs.domain.symbols))
    same, other = Form(lambda: lambda x: x * 2), Form(lambda: lambda x: x * 3)
    assert counted(lambda: eager.compare([same], {name: 4}, calls=2)) == 2
    assert counted(lambda: eager.compare([same], {name: 4})) == 0
    assert counted(lambda: eager.compare([same], {name: 4}, calls=3)) == 3
    assert counted(lambda: eager.compare([same], {name: 5})) == 1
    assert eager.compare([other], {name: 4}).relation is Relation.DIFFERENT
    assert eager.compare([other], {name: 4}).relation is Relation.DIFFERENT
    inputs.demands.append(lambda *_: None)
    assert counted(lambda: eager.compare([same], {name: 4})) == 1


def test_eager_is_run_once_for_each_point_seed_and_demand_to_see_it_fail():
    """The fault: findings whose conditions overlap were tested by the same runs again."""
    inputs = declare(Counted(), (torch.rand(3),), None, {"x": {0: N}})
    eager, name = Eager(Counted(), inputs), next(iter(inputs.domain.symbols))
    assert counted(lambda: eager.failure({name: 4})) == 1
    assert counted(lambda: (eager.failure({name: 4}), eager.failure_at({name: 4}, None))) == 0
    assert counted(lambda: (eager.failure({name: 4}, None), eager.failure({name: 5}))) == 2
    inputs.demands.append(lambda *_: None)
    assert counted(lambda: eager.failure({name: 4})) == 1


def test_a_disagreement_of_a_second_call_is_not_one_of_the_first():
    inputs = declare(Counted(), (torch.rand(3),), None, {"x": {0: N}})
    eager, point = Eager(Counted(), inputs), {next(iter(inputs.domain.symbols)): 4}

    def fresh():
        answers = iter((2, 3))
        return lambda x: x * next(answers)

    assert not eager.compare([form := Form(fresh)], point, calls=2).agrees
    assert eager.compare([form], point).agrees
