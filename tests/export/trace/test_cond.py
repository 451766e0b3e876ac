"""Branches of torch.cond on sizes, each compared where it is taken; the rounds of torch.while_loop."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch._higher_order_ops import while_loop
from torch.export import Dim

from shapeproof.export import OutsideDomain, check
from shapeproof.export.explore.compare import bodies
from tests.agreement import agree
from tests.calling import Calls


class CutsWhereThereIsEnough(torch.nn.Module):
    """A branch of torch.cond with a size in it that fits only where the branch is taken."""

    def forward(self, x):
        return torch.cond(x.shape[0] > 4, lambda x: x[:4].sum(0), lambda x: x.sum(0) * 2, (x,))


@pytest.mark.thorough
def test_a_branch_of_cond_says_nothing_of_sizes_at_which_it_is_not_taken():
    report = check(CutsWhereThereIsEnough(), (torch.randn(9, 2),), dynamic_shapes=({0: Dim("n", min=2, max=16)},))
    assert report.status == "proved", str(report)
    program = report.program.module()
    assert all(agree(CutsWhereThereIsEnough(), program, (torch.randn(n, 2),)) for n in (2, 3, 4, 5, 16))


@pytest.mark.thorough
def test_a_branch_of_cond_that_is_taken_where_it_differs_is_not_passed_over():
    class CutsEarly(torch.nn.Module):
        def forward(self, x):
            times = 2.5 if x.shape[0] <= 3 else 3.5
            return torch.cond(x.shape[0] > 2, lambda x: x.sum(0) * times, lambda x: x.sum(0), (x,))

    report = check(CutsEarly(), (torch.randn(9, 2),), dynamic_shapes=({0: Dim("n", min=2, max=16)},))
    assert report.status != "proved", str(report)
    assert any(d.witness and d.witness["x.shape[0]"] == 3 for d in report.diagnostics), str(report)


def decided_by_a_branch(x):
    """On either way x*2."""
    if x.shape[0] > 6:
        return torch.cond(x.shape[0] > 3, lambda x: x * 2, lambda x: x + 1, (x,))
    return x * 2


def decided_the_other_way(x):
    if x.shape[0] > 6:
        return torch.cond(x.shape[0] > 8, lambda x: x * 2, lambda x: x + 1, (x,))
    return x + 1


def of_one_function(forward):
    return type("Model", (torch.nn.Module,), {"forward": lambda _, x: forward(x)})()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("forward", "rows"), [(decided_by_a_branch, 2), (decided_by_a_branch, 9), (decided_the_other_way, 9)]
)
def test_a_branch_of_cond_that_the_sizes_decide_is_compared_as_what_is_taken(forward, rows):
    """The fault: a call of torch.cond was another program than the branch that it takes wherever it was compared."""
    mod = of_one_function(forward)
    report = check(mod, (torch.ones(rows),), dynamic_shapes=({0: Dim("n", min=2, max=12)},))
    assert report.status == "proved", str(report)
    assert all(agree(mod, report.program.module(), (torch.ones(n),)) for n in range(2, 13))


def on_a_count(x):
    return torch.cond(x.nonzero().shape[0] > 3, lambda x: x.sum(), lambda x: x.sum() * 2, (x,))


def on_a_count_and_a_size(x):
    many = x.nonzero().shape[0] + x.shape[0] > 4
    return torch.cond(many, lambda x: x + 1, lambda x: x * 2, (x,))


@pytest.mark.thorough
@pytest.mark.parametrize("forward", [on_a_count, on_a_count_and_a_size])
def test_a_branch_of_cond_on_a_count_is_known_where_the_sizes_bound_the_count(forward):
    """The fault: below size 2 the call was compared with the branch that it takes there, and was undecided."""
    mod = of_one_function(forward)
    report = check(mod, (torch.tensor([1.0, 1.0, 0.0, -1.0, -1.0]),), dynamic_shapes=({0: Dim("n", min=0, max=64)},))
    assert report.status == "proved", str(report)
    run = report.program.module()
    inputs = (torch.tensor(each) for n in range(6) for each in itertools.product((0.0, 1.0), repeat=n))
    assert all(agree(mod, run, (x,)) for x in inputs)


def test_a_count_of_another_tensor_decides_no_branch_of_cond():
    """Two traces may give one name to two counts: the bounds of one say nothing of the other."""

    def forward(x, y):
        count = (x if x.shape[0] < 2 else y).nonzero().shape[0]
        return torch.cond(count > 3, lambda x: x.sum(), lambda x: x.sum() * 2, (x,))

    mod = Calls(forward)
    shapes = {"x": {0: Dim("n", min=0, max=64)}, "y": {0: Dim("m", min=8, max=64)}}
    assert check(mod, (torch.ones(5), torch.ones(9)), dynamic_shapes=shapes).status != "proved"


def checking(bound):
    def then(x):
        torch._check(x.shape[0] > bound)
        return x * 2

    return then


FITTING = {
    "a check": lambda x: torch.cond(x.shape[0] > 6, checking(6), lambda x: x + 1, (x,)),
    "a view": lambda x: torch.cond(x.shape[0] % 4 == 0, lambda x: x.view(-1, 4).sum(0), lambda x: x[:1] * 4, (x,)),
    "an index": lambda x: torch.cond(x.shape[0] >= 5, lambda x: x[4] * 2, lambda x: x[0] * 1, (x,)),
}


@pytest.mark.thorough
@pytest.mark.parametrize("forward", FITTING.values(), ids=FITTING)
def test_a_branch_need_fit_only_where_it_is_taken(forward):
    """The fault: dynamo reads a branch where it is not taken, too, and fails there: that part was undecided."""
    mod = of_one_function(forward)
    report = check(mod, (torch.ones(8),), dynamic_shapes=({0: Dim("n", min=2, max=12)},))
    assert report.status == "proved", str(report)
    run = report.program.module()
    assert all(agree(mod, run, (torch.ones(n),)) for n in range(2, 13))


def test_a_check_that_fails_where_its_branch_is_taken_is_refuted():
    mod = of_one_function(lambda x: torch.cond(x.shape[0] > 5, checking(6), lambda x: x + 1, (x,)))
    report = check(mod, (torch.ones(9),), dynamic_shapes=({0: Dim("n", min=2, max=12)},))
    assert report.status == "refuted", str(report)
    assert report.diagnostics[0].witness == {"x.shape[0]": 6}


@pytest.mark.thorough
def test_branches_that_no_size_lets_dynamo_read_are_told_apart_like_those_of_an_if():
    """The fault: the model was called untraceable. Each branch is traced where it is taken."""

    def small(x):
        torch._check(x.shape[0] <= 5)
        return x + 1

    mod = of_one_function(lambda x: torch.cond(x.shape[0] > 5, checking(5), small, (x,)))
    declared = {"dynamic_shapes": ({0: Dim("n", min=2, max=12)},)}
    assert check(mod, (torch.ones(9),), **declared).status == "refuted"
    report = check(mod, (torch.ones(9),), **declared, branches="split")
    assert report.status == "proved", str(report)
    assert all(agree(mod, report.program.module(), (torch.ones(n),)) for n in range(2, 13))


def test_torch_cond_may_be_imported_by_name():
    from torch import cond

    mod = of_one_function(lambda x: cond(x.shape[0] > 6, checking(6), lambda x: x + 1, (x,)))
    assert check(mod, (torch.ones(9),), dynamic_shapes=({0: Dim("n", min=2, max=12)},)).status == "proved"


class ReadsInABranch(torch.nn.Module):
    """Dynamo reads the branch, and folds what it asks."""

    def forward(self, x):
        return torch.cond(x.sum() > 0, as_it_lies, torch.neg, (x,))


def as_it_lies(x):
    return x * 3 if x.is_contiguous() else x * 2


@pytest.mark.thorough
def test_a_layout_that_a_branch_reads_is_held():
    """The fault: dynamo folds what the branch asks, and no call of it is seen."""
    dims = {0: Dim("n", min=1, max=8), 1: Dim("m", min=1, max=8)}
    report = check(ReadsInABranch(), (torch.ones(3, 4),), dynamic_shapes=(dims,))
    assert report.status == "proved"
    run = report.program.module()
    for inside in (torch.rand(5, 6), -torch.rand(5, 6), torch.rand(1, 6)):
        assert agree(ReadsInABranch(), run, (inside,))
    with pytest.raises(OutsideDomain, match="stride"):
        run(torch.ones(4, 3).t())


BRANCHES = {
    "behind other operators": lambda y: (y[:5] * 2).exp().sum(0),
    "twice": lambda y: y[1:][:3].sum(0),
    "from the end": lambda y: y[-4:].flip(0).cumsum(0).sum(0),
    "copied out": lambda y: torch.cat([y[:5], y]).sum(0),
}


@pytest.mark.thorough
@pytest.mark.parametrize("branch", BRANCHES.values(), ids=BRANCHES)
def test_slices_in_a_branch_on_data_are_noted_as_they_are_at_all_sizes(branch):
    class Branching(torch.nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, branch, lambda y: y.sum(0), (x,))

    report = check(Branching(), (torch.ones(7, 2),), dynamic_shapes=({0: Dim("n", min=0, max=9)},))
    assert report.status == "proved", str(report)
    program = report.program.module()
    assert all(agree(Branching(), program, (torch.ones(n, 2),)) for n in range(10))
    noted = [node.meta["val"] for body in _bodies(report.program) for node in body.graph.nodes if "val" in node.meta]
    sizes = [each.shape[0] for each in noted if isinstance(each, torch.Tensor) and each.dim() == 2]
    assert sizes
    assert not any(isinstance(size, int) for size in sizes)


def _bodies(program):
    outermost = program.graph_module
    return [each for each in outermost.modules() if isinstance(each, torch.fx.GraphModule) and each is not outermost]


@pytest.mark.thorough
def test_a_branch_whose_rank_depends_on_a_size_is_not_called_proved():
    class Squeezing(torch.nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda y: y[:3].squeeze(0).amax(0).sum(), lambda y: y.sum(), (x,))

    report = check(Squeezing(), (torch.ones(4, 2),), dynamic_shapes=({0: Dim("n", min=1, max=9)},))
    assert report.status == "undecided", str(report)


@pytest.mark.thorough
def test_a_list_in_a_branch_has_as_many_parts_as_are_noted():
    class Splits(torch.nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda y: y.split(1)[0].sum(0), lambda y: y.sum(0), (x,))

    report = check(Splits(), (torch.rand(3, 2),), dynamic_shapes=({0: Dim("n", min=1, max=4)},))
    assert report.status == "undecided", str(report)


class SlicesTheOtherDim(torch.nn.Module):
    """Torch writes `x[:, :3]` as two slices, and as one where the size of the first dim is 1."""

    def forward(self, x, ends):
        pad = torch.nn.functional.pad
        return torch.cond((ends > 2).all(), lambda x: pad(x, (0, 3)), lambda x: torch.cat([x, x[:, :3]], 1), (x,))


def test_a_slice_of_all_rows_in_a_branch_makes_no_difference():
    inputs = (torch.randn(4, 4), torch.tensor([1, 3]))
    report = check(SlicesTheOtherDim(), inputs, dynamic_shapes=({0: Dim("n", min=1)}, {0: Dim("k")}))
    assert report.status == "proved", str(report)
    program = report.program.module()
    for n in (1, 2, 8):
        for ends in (torch.tensor([1, 3]), torch.tensor([3, 3])):
            assert agree(SlicesTheOtherDim(), program, (torch.randn(n, 4), ends))


def _slicing(*rows):
    """The body of a branch: `x[rows][:, :3] + 1`."""
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    kept = graph.call_function(torch.ops.aten.slice.Tensor, (x, 0, *rows)) if rows else x
    kept = graph.call_function(torch.ops.aten.slice.Tensor, (kept, 1, 0, 3))
    graph.output((graph.call_function(torch.ops.aten.add.Tensor, (kept, 1)),))
    return torch.fx.GraphModule({}, graph)


def test_bodies_that_slice_other_rows_are_not_the_same():
    no = bodies.Known((lambda _: None,) * 2, lambda _: None, lambda *_: True)
    end = torch.iinfo(torch.int64).max
    assert bodies.same_body(_slicing(0, end), _slicing(), no)
    assert bodies.same_body(_slicing(), _slicing(0, end), no)
    assert not any(bodies.same_body(_slicing(*rows), _slicing(), no) for rows in ((1, end), (0, 3), (0, end, 2)))


class Repeats(torch.nn.Module):
    """A loop over a layer whose parameters require gradients: torch keeps a row for each round."""

    def __init__(self, rounds: int) -> None:
        super().__init__()
        self.layer, self.rounds = torch.nn.Linear(3, 3), rounds

    def forward(self, x):
        def going_on(i, _):
            return i < self.rounds

        def one_round(i, y):
            return i + 1, self.layer(y)

        return while_loop(going_on, one_round, (torch.tensor(0), x))[1]


@pytest.mark.parametrize("rounds", [2, pytest.param(0, marks=pytest.mark.thorough)])
def test_the_rounds_that_a_loop_keeps_for_gradients_need_no_check(rounds):
    mod = Repeats(rounds)
    report = check(mod, (torch.randn(3, 3),), dynamic_shapes=({0: Dim("n", min=0, max=6)},))
    assert report.status == "proved", str(report)
    program = report.program.module()
    assert all(agree(mod, program, (torch.randn(n, 3),)) for n in range(7))
