"""Outside the domain a program refuses whatever was declared or read: kinds, layouts, presence, structure, memory."""

from __future__ import annotations

import copy
import functools
import io
import pickle

import pytest
import torch
from torch.export import Dim

from shapeproof.constraints.errors import UsageError
from shapeproof.export import OutsideDomain, TensorSpec, check, export, load_regions
from tests.agreement import agree

ROWS = {0: Dim("n", max=8)}


class Model(torch.nn.Module):
    """Would compute something for every input below."""

    def forward(self, x, y=None, scale=2, flag=True, more=()):
        z = x * scale if flag else x
        for each in more:
            z = z + each
        return (z if y is None else z + y).sum(-1)


def saved(program):
    """The program after a round trip through a file."""
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    buffer.seek(0)
    return torch.export.load(buffer)


def without_dead_code(run):
    """What passes of torch do, those of quantization too. The fault: it dropped the guards, which give nothing."""
    run.graph.eliminate_dead_code()
    run.recompile()
    return run


OURS = {
    "module": lambda program: program.module(),
    "dead code eliminated": lambda program: without_dead_code(program.module()),
    "copied": lambda program: copy.deepcopy(program.module()),
    "decomposed": lambda program: program.run_decompositions().module(),
}
SAVED = {
    "saved": lambda program: saved(program).module(),
    "decomposed, saved": lambda program: saved(program.run_decompositions()).module(),
}
UNFLATTENED = {
    "unflatten": torch.export.unflatten,
    "decomposed, unflatten": lambda program: torch.export.unflatten(program.run_decompositions()),
}
FORMS = OURS | SAVED | UNFLATTENED

INSIDE = (torch.ones(5, 4), None, 2, True, (torch.ones(4),))
OUTSIDE = {
    "above a bound": ({0: torch.ones(9, 4)}, "x.shape[0] = 9, but x.shape[0] <= 8 is declared"),
    "another constant size": ({0: torch.ones(5, 3)}, "x.shape[1] = 3, but x.shape[1] == 4 is declared"),
    "dtype": ({0: torch.ones(5, 4).double()}, "x.dtype = torch.float64, but x.dtype == torch.float32 is declared"),
    "an integer dtype": ({0: torch.ones(5, 4).long()}, "x.dtype = torch.int64, but x.dtype == torch.float32 is"),
    "a higher rank": ({0: torch.ones(5, 4, 3)}, "x.dim() = 3, but x.dim() == 2 is declared"),
    "a lower rank": ({0: torch.ones(5)}, "x.dim() = 1, but x.dim() == 2 is declared"),
    "layout": ({0: torch.ones(5, 4).to_sparse()}, "x.layout = torch.sparse_coo, but x.layout == torch.strided is"),
    "device": ({0: torch.ones(5, 4, device="meta")}, "x.device = meta, but x.device == cpu is declared"),
    "no tensor": ({0: None}, "x = None, but a tensor is declared"),
    "a number for a tensor": ({0: 3.5}, "x = 3.5, but a tensor is declared"),
    "a tensor for None": ({1: torch.ones(5, 4)}, "y = a tensor, but None is declared"),
    "a number for None": ({1: 1.5}, "y = 1.5, but None is declared"),
    "another int": ({2: 3}, "scale = 3, but scale == 2 is declared"),
    "a float that equals the int": ({2: 2.0}, "scale = 2.0, but scale == 2 is declared"),
    "another bool": ({3: False}, "flag = False, but flag == True is declared"),
    "an int that equals the bool": ({3: 1}, "flag = 1, but flag == True is declared"),
    "another dtype within": ({4: (torch.ones(4).double(),)}, "more[0].dtype = torch.float64, but more[0].dtype == "),
    "another length": (
        {4: ()},
        "argument 5 is structured as TreeSpec(tuple, None, []), but TreeSpec(tuple, None, [*])",
    ),
    "a list for a tensor": (
        {0: [torch.ones(5, 4)]},
        "argument 1 is structured as TreeSpec(list, None, [*]), but a leaf",
    ),
}
NOT_SEEN = {("unflatten", "a tensor for None"), ("unflatten", "a number for None")}
"""What torch.export.unflatten cannot be told: its graph has no operator that sees it, and it takes no guards along."""


@pytest.fixture(scope="module")
def program():
    return export(Model(), INSIDE, dynamic_shapes=(ROWS, None, None, None, (None,)))


@pytest.fixture(scope="module")
def runs(program):
    """The program in each of its forms."""
    return {name: form(program) for name, form in FORMS.items()}


@pytest.mark.thorough
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", OUTSIDE)
def test_every_form_refuses_what_was_not_declared(runs, form, case):
    changed, said = OUTSIDE[case]
    args = [changed.get(index, arg) for index, arg in enumerate(INSIDE)]
    if (form.rpartition(", ")[2], case) in NOT_SEEN:
        assert runs[form](*args).shape == (5,)
    elif form in OURS and "structured" not in said:
        with pytest.raises(OutsideDomain) as raised:
            runs[form](*args)
        assert str(raised.value).startswith(said)
    else:
        with pytest.raises((RuntimeError, AssertionError, AttributeError, IndexError, ValueError, TypeError)):
            runs[form](*args)


@pytest.mark.thorough
@pytest.mark.parametrize("case", ["another length", "a list for a tensor"])
def test_another_structure_is_outside_the_domain(runs, case):
    changed, said = OUTSIDE[case]
    with pytest.raises(OutsideDomain) as raised:
        runs["module"](*(changed.get(index, arg) for index, arg in enumerate(INSIDE)))
    assert str(raised.value).startswith(said)


@pytest.mark.parametrize("form", FORMS)
def test_what_lies_inside_is_served(runs, form):
    for rows in (0, 1, 8):
        assert agree(Model(), runs[form], (torch.randn(rows, 4), None, 2, True, (torch.randn(4),)))
    assert agree(Model(), runs[form], (torch.randn(4, 5).t(), None, 2, True, (torch.randn(8)[::2],)))


def test_fewer_arguments_and_other_keywords_are_outside(runs):
    with pytest.raises(OutsideDomain, match="2 positional arguments are given, but 5 are declared"):
        runs["module"](*INSIDE[:2])
    with pytest.raises(OutsideDomain, match=r"the keyword arguments \['z'\] are given, but \[\] are declared"):
        runs["module"](*INSIDE, z=1)


def test_a_refusal_says_what_was_given_and_what_is_declared(runs):
    with pytest.raises(OutsideDomain) as raised:
        runs["module"](torch.ones(9, 4), *INSIDE[1:])
    error = pickle.loads(pickle.dumps(raised.value))  # noqa: S301 - as a data loader's worker hands it on
    assert (str(error), error.point, error.formula) == (str(raised.value), {"x.shape[0]": 9}, "x.shape[0] <= 8")
    assert (error.diagnostic.id, error.diagnostic.witness) == ("outside", {"x.shape[0]": 9})


class Two(torch.nn.Module):
    def forward(self, x, n):
        return x[:-1] * n


@pytest.mark.parametrize("form", OURS)
def test_relations_and_ints_are_refused_by_name(form):
    rows = Dim("rows", min=1, max=5)
    shapes = {"x": {0: 2 * rows + 1}, "n": Dim.AUTO(min=0, max=9)}
    run = OURS[form](export(Two(), (torch.ones(7), 3), dynamic_shapes=shapes))
    assert torch.equal(run(torch.ones(5), 9), torch.full((4,), 9.0))
    for args, said in {
        (torch.ones(6), 3): "x.shape[0] = 6, rows = 2, but x.shape[0] == 2*rows + 1 is declared",
        (torch.ones(13), 3): "x.shape[0] = 13, rows = 6, but rows <= 5 is declared",
        (torch.ones(5), 10): "n = 10, but n <= 9 is declared",
        (torch.ones(5), True): "n = True, but an int is declared",
        (torch.ones(5), 3.0): "n = 3.0, but an int is declared",
    }.items():
        with pytest.raises(OutsideDomain) as raised:
            run(*args)
        assert str(raised.value) == said


class Constants(torch.nn.Module):
    def forward(self, x, factor, mode):
        return x * factor if mode == "same" else -x


@pytest.mark.parametrize("form", OURS | SAVED)
def test_constants_of_every_kind_are_held(form):
    args = (torch.ones(3), 0.0, "same")
    run = (OURS | SAVED)[form](export(Constants(), args, dynamic_shapes=(ROWS, None, None)))
    assert agree(Constants(), run, args)
    for other in ((0.5, "same"), (0.0, "other"), (0, "same"), (0.0, None)):
        with pytest.raises((OutsideDomain, AssertionError)):
            run(torch.ones(3), *other)


def test_the_sign_of_a_zero_and_nan_are_values():
    run = export(Constants(), (torch.ones(3), 0.0, "same")).module()
    for factor in (-0.0, float("nan"), 0):
        with pytest.raises(OutsideDomain, match=r"factor == 0\.0 is declared"):
            run(torch.ones(3), factor, "same")
    not_a_number = (torch.ones(3), float("nan"), "same")
    assert export(Constants(), not_a_number).module()(*not_a_number).shape == (3,)


def test_a_tensor_without_an_example_is_held_too():
    run = export(torch.nn.ReLU(), (TensorSpec(torch.float32, (Dim("n", max=8), 4)),)).module()
    for wrong in (torch.ones(3, 4).double(), torch.ones(3, 5), torch.ones(3)):
        with pytest.raises(OutsideDomain):
            run(wrong)


# ---------------------------------------------------------------------- regions


class Sides(torch.nn.Module):
    def forward(self, x, y=None):
        z = x * 2 if x.shape[0] <= 4 else x - 1
        return z if y is None else z + y


@pytest.mark.parametrize("form", ["fresh", "saved"])
def test_regions_refuse_what_no_program_serves(form, tmp_path):

    regions = export(Sides(), (torch.ones(3), None), dynamic_shapes=(ROWS, None), branches="split")
    if form == "saved":
        regions.save(tmp_path / "sides.pt2")
        regions = load_regions(tmp_path / "sides.pt2")
    run = regions.module()
    assert all(agree(Sides(), run, (torch.randn(n), None)) for n in range(9))
    for args, said in [
        ((torch.ones(9), None), "x.shape[0] = 9, but x.shape[0] <= 8 is declared"),
        ((torch.ones(3).double(), None), "x.dtype = torch.float64, but x.dtype == torch.float32 is declared"),
        ((torch.ones(3, 3), None), "x.dim() = 2, but x.dim() == 1 is declared"),
        ((torch.ones(3), torch.ones(3)), "y = a tensor, but None is declared"),
        ((torch.ones(3),), "1 positional arguments are given, but 2 are declared"),
    ]:
        with pytest.raises(OutsideDomain) as raised:
            run(*args)
        assert str(raised.value) == said


@pytest.mark.thorough
def test_merged_regions_refuse_alike():
    regions = export(Sides(), (torch.ones(3), None), dynamic_shapes=(ROWS, None), branches="split")
    run = regions.merged().module()
    assert all(agree(Sides(), run, (torch.randn(n), None)) for n in range(9))
    for args in ((torch.ones(9), None), (torch.ones(3).double(), None), (torch.ones(3), torch.ones(3))):
        with pytest.raises(OutsideDomain):
            run(*args)


# ---------------------------------------------------------------------- layouts


class ReadsStrides(torch.nn.Module):
    def forward(self, x):
        return x + x.stride(0)


class AsksContiguous(torch.nn.Module):
    def forward(self, x):
        return x * 3 if x.is_contiguous() else x * 2


class ReadsOfAResult(torch.nn.Module):
    """The strides of a result are those of the input."""

    def forward(self, x):
        y = x * 2
        return y + y.stride(1)


class ReadsOffset(torch.nn.Module):
    def forward(self, x):
        return x + x.storage_offset()


class WritesWhatMayBeACopy(torch.nn.Module):
    """Where it cannot be viewed, x itself stays as it was."""

    def forward(self, x):
        x.contiguous().add_(1)
        return x * 2


BOTH = {0: Dim("n", min=1, max=8), 1: Dim("m", min=1, max=8)}


@functools.cache
def of_matrices(model, count=1):
    """The program of a model of so many matrices of one size."""
    return export(model(), tuple(torch.ones(3, 4) for _ in range(count)), dynamic_shapes=(BOTH,) * count)


TRANSPOSED = torch.arange(12.0).reshape(3, 4).t()
SLICED = torch.arange(24.0).reshape(6, 4)[2:]


@pytest.mark.parametrize("form", OURS | SAVED)
@pytest.mark.parametrize("model", [ReadsStrides, AsksContiguous, ReadsOfAResult, WritesWhatMayBeACopy])
def test_a_layout_that_was_read_is_held(model, form):
    run = (OURS | SAVED)[form](of_matrices(model))
    for inside in (torch.randn(5, 6), torch.randn(1, 6), torch.randn(5, 1), SLICED):
        assert agree(model(), run, (inside,))
    with pytest.raises((OutsideDomain, AssertionError), match="stride"):
        run(TRANSPOSED.clone())


def test_an_offset_that_was_read_is_held():
    run = of_matrices(ReadsOffset).module()
    assert agree(ReadsOffset(), run, (torch.randn(5, 6),))
    with pytest.raises(OutsideDomain, match=r"x\.storage_offset\(\) = 8, but .* == 0 is what the model has read"):
        run(SLICED)


def test_a_layout_of_the_example_is_the_one_that_is_held():
    model = AsksContiguous()
    least = {0: Dim("n", min=2, max=8), 1: Dim("m", min=2, max=8)}
    run = export(model, (TRANSPOSED,), dynamic_shapes=(least,)).module()
    assert agree(model, run, (torch.randn(5, 6).t(),))
    with pytest.raises(OutsideDomain, match="stride"):
        run(torch.randn(5, 6))


def test_an_example_in_a_layout_of_its_own_is_refused_where_it_was_read():
    gaps = torch.ones(3, 8)[:, ::2]
    with pytest.raises(UsageError, match=r"of the example inputs, x\.stride\(\) = \(8, 2\), but .* == \(4, 1\)"):
        export(ReadsStrides(), (gaps,), dynamic_shapes=(BOTH,))
    assert agree(torch.nn.ReLU(), export(torch.nn.ReLU(), (gaps,), dynamic_shapes=(BOTH,)).module(), (gaps,))


class SplitsByStrides(torch.nn.Module):
    def forward(self, x):
        y = x + 1 if x.stride() == tuple(sorted(x.stride(), reverse=True)) else x - 1
        return y.split(2, 2)[-1]


def test_a_refuted_model_refuses_an_example_as_a_proved_one_does():
    """The fault: the help said that the example fits, and the export with that help refused it."""
    x = torch.empty_strided((2, 1, 3, 2), (6, 1, 2, 1)).zero_()
    with pytest.raises(UsageError, match=r"of the example inputs, x\.stride\(\) = \(6, 1, 2, 1\)"):
        check(SplitsByStrides(), (x,), dynamic_shapes=({0: Dim("n", min=0, max=3), 2: Dim("m", min=0, max=3)},))


class Gradient(torch.nn.Module):
    def forward(self, x):
        return x * 2 if x.requires_grad else x


def test_a_flag_that_was_read_is_held():
    run = export(Gradient(), (torch.ones(3),), dynamic_shapes=(ROWS,)).module()
    assert agree(Gradient(), run, (torch.randn(5),))
    with pytest.raises(OutsideDomain, match=r"x\.requires_grad = True, but x\.requires_grad == False is what"):
        run(torch.randn(5, requires_grad=True))
    assert export(torch.nn.ReLU(), (torch.ones(3),)).module()(torch.ones(3, requires_grad=True)).requires_grad


@pytest.mark.parametrize("static", [True, False])
def test_contiguous_is_part_of_the_program_whatever_the_example_was(static):
    """The fault: of a contiguous tensor without symbols `contiguous` left no trace, and a view failed after it."""

    class Flat(torch.nn.Module):
        def forward(self, x):
            return x.contiguous().view(-1)

    run = export(Flat(), (torch.ones(4, 3),), dynamic_shapes=None if static else (BOTH,)).module()
    assert agree(Flat(), run, (TRANSPOSED,))


# ---------------------------------------------------------------------- memory


class Writes(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("state", torch.zeros(1))

    def forward(self, x, y):
        x.add_(1)
        return x + y


class Counts(torch.nn.Module):
    """Both counts are one number, as long as nothing is written between them."""

    def forward(self, x, y):
        before = y.nonzero().shape[0]
        x.zero_()
        after = y.nonzero().shape[0]
        torch._check(before == after)
        return y + before - after


class WritesState(Writes):
    def forward(self, x, y):
        self.state.add_(1)
        return x + y


BESIDE = ({0: Dim("n", max=8)}, {0: Dim("n", max=8)})


@pytest.mark.parametrize("form", OURS)
@pytest.mark.parametrize("model", [Writes, Counts])
def test_inputs_that_share_memory_are_refused_where_one_is_written_into(model, form):
    run = OURS[form](export(model(), (torch.ones(4), torch.ones(4)), dynamic_shapes=BESIDE))
    base = torch.randn(8)
    assert agree(model(), run, (base[:4], base[4:]))
    for x, y in [(base, base), (base[:5], base[3:]), (base[:4], base[2:6]), (base[::2], base[1::2])]:
        with pytest.raises(OutsideDomain, match="x and y share memory, and the model writes into x"):
            run(x, y)


def test_inputs_that_share_memory_are_served_where_nothing_is_written():
    class Reads(torch.nn.Module):
        def forward(self, x, y):
            return x @ y

    run = export(Reads(), (torch.ones(4), torch.ones(4)), dynamic_shapes=BESIDE).module()
    x = torch.randn(5)
    assert agree(Reads(), run, (x, x))


@pytest.mark.parametrize("model", [Writes, WritesState])
def test_an_input_that_lies_in_the_model_is_refused_where_one_is_written_into(model):
    eager = model()
    run = export(eager, (torch.ones(4), torch.ones(4)), dynamic_shapes=BESIDE).module()
    with pytest.raises(OutsideDomain, match="x and `state` of the model share memory, and the model writes into"):
        run(run.state, torch.ones(1))


def test_an_example_that_shares_memory_is_refused_where_it_is_written_into():
    x = torch.ones(4)
    with pytest.raises(UsageError, match="of the example inputs, x and y share memory, and the model writes into x"):
        export(Writes(), (x, x), dynamic_shapes=BESIDE)
    with pytest.raises(UsageError, match="share memory"):
        export(Writes(), (x[:3], x[1:]), dynamic_shapes=BESIDE)


class Same(torch.nn.Module):
    def forward(self, q, k):
        return q * 3 if q is k else q + k


def test_an_example_that_is_one_tensor_twice_is_replayed_as_such():
    """The fault: eager was replayed on two copies, and took another way than on the example."""
    x = torch.ones(4)
    report = check(Same(), (x, x), dynamic_shapes=BESIDE)
    assert report.status == "refuted"
    assert agree(Same(), export(Same(), (x, x + 0), dynamic_shapes=BESIDE).module(), (x, x + 1))


# ---------------------------------------------------------------------- other forms


@pytest.mark.thorough
def test_a_compiled_module_refuses_alike(program):
    """Dynamo reads the guards, and the assertions of the graph after them."""
    run = torch.compile(program.module(), backend="eager")
    assert agree(Model(), run, INSIDE)
    for case in ("dtype", "a higher rank", "a tensor for None", "another int", "above a bound"):
        changed, _ = OUTSIDE[case]
        with pytest.raises(RuntimeError):
            run(*(changed.get(index, arg) for index, arg in enumerate(INSIDE)))


def test_a_copy_of_a_program_is_one():
    program = export(Writes(), (torch.ones(4), torch.ones(4)), dynamic_shapes=BESIDE)
    run, x = copy.deepcopy(program).module(), torch.randn(5)
    assert agree(Writes(), run, (x, x + 1))
    with pytest.raises(OutsideDomain, match="share memory"):
        run(x, x)
