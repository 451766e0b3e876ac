"""The regions of a split model as one program that dispatches by torch.cond: it does what eager does, or is refused."""

from __future__ import annotations

import copy
import itertools

import pytest
import torch
from hypothesis import given, note
from torch.export import Dim

from shapeproof.constraints.errors import UsageError
from shapeproof.export import Regions, VerifiedProgram, check, export, load_regions
from tests.agreement import RAISES, agree, outcome
from tests.export.random_programs import few, programs

N = Dim("n", min=0, max=100)
EDGES = (0, 1, 9, 10, 11, 30, 31, 100)


class Three(torch.nn.Module):
    """Three regions, which share a parameter and have constants of their own."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.register_buffer("scale", torch.tensor(3.0))

    def forward(self, x):
        if x.shape[0] == 10:
            return self.linear(x) * torch.tensor([1.0, 2.0, 3.0, 4.0])
        if x.shape[0] <= 30:
            return self.linear(x) + self.scale * torch.tensor([4.0, 3.0, 2.0, 1.0])
        return x - 1


def rows(n):
    return (torch.arange(4.0 * n).reshape(n, 4),)


def split(mod, args=None, shapes=None, **options):
    """The regions of a model; of one tensor with a dynamic first size, if nothing else is said."""
    return export(mod, args or rows(5), dynamic_shapes=shapes or ({0: N},), branches="split", **options)


def model(forward):
    """A model of one function."""
    return type("Model", (torch.nn.Module,), {"forward": lambda _, x: forward(x)})()


@pytest.fixture(scope="module")
def three():
    mod = Three()
    regions = split(mod)
    return mod, regions, regions.merged()


@pytest.mark.thorough
def test_one_program_does_what_eager_does_in_every_region(three):
    mod, regions, program = three
    assert len(regions.programs) == 3
    assert program.report.status == "proved"
    run = program.module()
    assert all(agree(mod, run, rows(n)) for n in range(101))
    assert outcome(run, rows(101)) == RAISES


@pytest.mark.thorough
def test_every_program_that_is_given_out_has_its_forms(three):
    _, regions, merged = three
    assert type(regions) is Regions
    assert {type(each) for each in (*regions.programs, merged, copy.deepcopy(merged))} == {VerifiedProgram}


@pytest.mark.thorough
def test_the_choice_is_made_by_the_sizes_in_the_graph(three):
    """The predicate stays symbolic, and the branches are nested for more than two regions."""
    graphs = [module for module in three[2].graph_module.modules() if isinstance(module, torch.fx.GraphModule)]
    conds = [node for graph in graphs for node in graph.graph.nodes if node.target is torch.ops.higher_order.cond]
    assert len(conds) == 2
    assert all(isinstance(node.args[0].meta["val"], torch.SymBool) for node in conds)


@pytest.mark.thorough
def test_parameters_and_buffers_are_those_of_the_model(three):
    mod, _, program = three
    assert all(program.state_dict[name] is tensor for name, tensor in mod.state_dict(keep_vars=True).items())


@pytest.mark.thorough
def test_it_is_saved_and_loaded_like_any_program(three, tmp_path):
    mod, _, program = three
    torch.export.save(program, tmp_path / "three.pt2")
    for loaded in (torch.export.load(tmp_path / "three.pt2"), program.run_decompositions()):
        run = loaded.module()
        assert all(agree(mod, run, rows(n)) for n in EDGES)
        assert outcome(run, rows(101)) == RAISES


@pytest.mark.slow
def test_one_aotinductor_package_serves_all_regions(three, tmp_path):
    mod, _, program = three
    path = torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "three.pt2"))
    run = torch._inductor.aoti_load_package(path)
    assert all(agree(mod, run, rows(n)) for n in EDGES)
    assert outcome(run, rows(101)) == RAISES


def test_one_region_is_its_program():
    regions = split(torch.nn.ReLU())
    assert regions.merged() is regions.programs[0]


class Kinds(torch.nn.Module):
    """Two sizes, one of them derived; a nested keyword, a flag and an int; a structure with None comes out."""

    def forward(self, x, pair, *, flag, times):
        y = x + pair["k"].sum() if flag else x
        if x.shape[0] > 2 * pair["k"].shape[0]:
            return {"y": y * times, "nothing": None}, y
        return {"y": y.sin(), "nothing": None}, y + 1


def test_inputs_and_results_of_any_structure():
    k = Dim("k", min=0, max=4)
    shapes = {"x": {0: N}, "pair": {"k": {0: 2 * k}}, "flag": None, "times": torch.export.Dim.DYNAMIC}

    def at(n, k):
        return (torch.ones(n), {"k": torch.ones(2 * k)}), {"flag": True, "times": n + 3}

    args, kwargs = at(5, 2)
    regions = export(Kinds(), args, kwargs, dynamic_shapes=shapes, branches="split")
    run = regions.merged().module()
    assert len(regions.programs) == 2
    assert all(agree(Kinds(), run, *at(*sizes)) for sizes in itertools.product((0, 1, 7, 8, 9, 100), range(5)))


@pytest.mark.thorough
def test_numbers_and_sizes_that_are_the_same_in_every_region():
    """A product of the sizes, a matrix whose inner size is dynamic, and a transposed result."""
    mod = model(
        lambda x: (x @ x.t(), x.shape[0] * 2, x.t() * 2) if x.shape[0] > 30 else (x @ -x.t(), x.shape[0] * 2, x.t())
    )
    run = split(mod).merged().module()
    assert all(agree(mod, run, rows(n)) for n in EDGES)


@pytest.mark.thorough
def test_what_was_inferred_is_enforced():
    """The greatest row of none raises: `Dim.AUTO` is narrowed, and the merged program refuses the rest."""

    def forward(x):
        y = x - x.amax(0)
        return y.sin() if x.shape[0] > 30 else y.cos()

    mod = model(forward)
    run = split(mod, rows(6), ({0: Dim.AUTO},)).merged().module()
    assert all(agree(mod, run, rows(n)) for n in range(1, 60))
    assert outcome(run, rows(0)) == RAISES


@pytest.mark.thorough
def test_a_result_that_is_an_input_is_a_copy():
    mod = model(lambda x: x if x.shape[0] > 30 else (x + 1)[:, :])
    x = rows(31)[0]
    run = split(mod).merged().module()
    assert all(agree(mod, run, rows(n)) for n in EDGES)
    assert run(x).data_ptr() != x.data_ptr()


MERGED = {
    "another size": lambda x: x[:12].cumsum(0) if x.shape[0] > 12 else x.sin(),
    "another number": lambda x: (x + 1, x.shape[0] * 2 if x.shape[0] > 3 else 7),
    "another constant": lambda x: (x, 1) if x.shape[0] > 3 else (x + 1, 2),
    "sizes that only one region has": lambda x: x.view(2, 5, 4).sum(0) if x.shape[0] == 10 else x[:5] + 1,
    "a remainder": lambda x: x.view(-1, 2, 4).mean(1) if x.shape[0] % 2 == 0 and x.shape[0] < 50 else x.cos(),
    "a rank that only one region has": lambda x: x.squeeze(0).sum(0, keepdim=True) if x.shape[0] == 1 else x.sum(1),
}
"""What works at the sizes of one region only, or gives results of other sizes."""


@pytest.mark.thorough
@pytest.mark.parametrize("name", MERGED)
def test_branches_are_read_at_sizes_at_which_they_work(name):
    mod = model(MERGED[name])
    program = split(mod).merged()
    assert program.report.status == "proved"
    run = program.module()
    assert all(agree(mod, run, rows(n)) for n in range(101))
    assert outcome(run, rows(101)) == RAISES


@pytest.mark.slow
@pytest.mark.parametrize("name", MERGED)
def test_a_package_of_such_branches_does_what_eager_does_at_every_size(name, tmp_path):
    mod = model(MERGED[name])
    path = torch._inductor.aoti_compile_and_package(split(mod).merged(), package_path=str(tmp_path / "merged.pt2"))
    package = torch._inductor.aoti_load_package(path)

    def run(x):
        """What the package gives; it gives numbers as tensors."""
        return torch.utils._pytree.tree_map(lambda given: given if given.dim() else given.item(), package(x))

    assert all(agree(mod, run, rows(n)) for n in range(101))
    assert outcome(run, rows(101)) == RAISES


REFUSED = {
    "another structure": (lambda x: (x, x + 1) if x.shape[0] > 3 else (x,), "region . returns another structure"),
    "another rank": (lambda x: x[0] if x.shape[0] == 1 else x, "result 1 is a .* of 2 dimensions .* in region 1 and"),
    "another type": (lambda x: x.double() if x.shape[0] > 3 else x, r"result 1 is a torch\.float.* and a torch\.float"),
    "a constant that differs": (
        lambda x: (x, 0.5) if x.shape[0] > 3 else (x, 1.5),
        "result 2 is .* in region 1 and .* in",
    ),
    "a change in place": (lambda x: x.add_(1) if x.shape[0] > 3 else x, "region . changes `x` in place"),
}


@pytest.mark.quick
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_merged_is_refused_in_one_sentence(name):
    forward, sentence = REFUSED[name]
    regions = split(model(forward))
    assert len(regions.programs) == 2
    with pytest.raises(UsageError, match=f"^the regions cannot be merged into one program: {sentence}") as caught:
        regions.merged()
    assert "\n" not in str(caught.value)


def test_results_whose_sizes_come_from_data_are_merged_whatever_their_strides():
    """The fault: nonzero gives rows whose strides are in another order, which torch.cond refuses of its branches."""

    def forward(x):
        return x.nonzero() if x.shape[0] % 3 == 0 else torch.unique(x).long()[:, None]

    mod = model(forward)
    run = split(mod, (torch.arange(6.0),)).merged().module()
    assert all(agree(mod, run, (torch.arange(float(n)),)) for n in range(8))


def test_regions_from_a_file_are_not_merged(three, tmp_path):
    three[1].save(tmp_path / "three.pt2")
    with pytest.raises(UsageError, match="loaded from a file cannot be merged"):
        load_regions(tmp_path / "three.pt2").merged()


@pytest.mark.thorough
def test_a_merged_program_is_checked_like_a_model(three):
    """Its module is a model again: one program, with nothing left to split."""
    mod, _, program = three
    report = check(program.module(check_guards=False), rows(5), dynamic_shapes=({0: N},))
    assert report.status == "proved", str(report)
    assert all(agree(mod, report.program.module(), rows(n)) for n in EDGES)


@pytest.mark.slow
@few(8)
@given(programs())
def test_the_regions_of_a_random_program_are_merged_right_or_refused(program):
    note(str(program))
    report = program.check(branches="split")
    if report.status == "proved":
        try:
            run = report.program.merged().module()
        except UsageError:
            return
        assert program.disagreements(run) == []


def returned(value):
    """A model that returns, of one row, a value with its numbers, and of more rows the same with others."""
    return model(lambda x: value(x, 1) if x.shape[0] == 1 else value(x, x.shape[0] * 2))


RETURNED = {
    "a number": lambda _, n: n,
    "numbers in containers": lambda x, n: {"a": [n, (x.shape[0], ())], "b": None},
    "None": lambda *_: None,
    "numbers, None and tensors": lambda x, n: (x, n, None, {"a": [], "b": x * n}),
    "constants": lambda *_: [1.5, True, None],
    "a number beside a draw": lambda _, n: (torch.rand(2), n)[1],
}


@pytest.mark.parametrize("name", RETURNED)
def test_a_merged_program_that_returns_more_than_tensors_is_saved_and_loaded(name, tmp_path):
    """The fault: a torch.cond without results stayed in the graph, and torch could not load it."""
    merged = split(returned(RETURNED[name]), (torch.ones(3, 2),), {"x": {0: N}}).merged()
    torch.export.save(merged, tmp_path / "merged.pt2")
    for run in (merged.module(), torch.export.load(tmp_path / "merged.pt2").module()):
        assert all(agree(returned(RETURNED[name]), run, (torch.ones(n, 2),)) for n in (0, 1, 2, 3, 30))


@pytest.mark.thorough
def test_a_cond_without_results_is_left_out_where_nothing_acts():
    graphs = [split(returned(RETURNED[name]), (torch.ones(3, 2),), {"x": {0: N}}).merged().graph for name in RETURNED]
    conds = [any(node.target is torch.ops.higher_order.cond for node in graph.nodes) for graph in graphs]
    assert dict(zip(RETURNED, conds, strict=True)) == {
        name: name in {"numbers, None and tensors", "a number beside a draw"} for name in RETURNED
    }


def test_what_writes_into_shared_state_is_not_merged_in_one_sentence():
    """The fault: torch's functionalization of aliased buffers, and of an attribute, raised out of `merged`."""

    class Writes(torch.nn.Module):
        def __init__(self, *, buffers):
            super().__init__()
            self.whole = torch.nn.Buffer(torch.zeros(3)) if buffers else torch.zeros(3)
            self.view = torch.nn.Buffer(self.whole[1:]) if buffers else self.whole

        def forward(self, x):
            if x.shape[0] > 3:
                self.whole.add_(1)
            return x + self.whole.sum() + self.view.sum()

    for buffers in (True, False):
        with pytest.raises(UsageError, match=r"region \d changes `(whole|view)` in place, and a branch of torch.cond"):
            split(Writes(buffers=buffers), (torch.ones(5),), {"x": {0: N}}).merged()
