"""Sparse tensors: how many elements one holds is never a constant of a program; what a fake makes up is refused."""

from __future__ import annotations

import io
import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.export import Dim

from shapeproof.constraints.errors import UsageError
from shapeproof.export import check, export
from shapeproof.export.graph.constants import same_constant
from tests.agreement import RAISES, agree, outcome
from tests.export.random_programs import few

SHAPES = {"x": {0: Dim("n", min=0, max=5)}, "y": None}
FULL = torch.tensor([[1.0, 0, 2], [0, 3, 0], [0, 0, 0], [1, 1, 1]])
TWICE = torch.sparse_coo_tensor(torch.tensor([[0, 0, 3], [1, 1, 2]]), torch.tensor([1.0, 2.0, 3.0]), (4, 3))
OTHERS = (FULL.to_sparse(), torch.zeros(4, 3).to_sparse(), torch.ones(4, 3).to_sparse(), TWICE.coalesce())


def model(forward):
    return type("Model", (torch.nn.Module,), {"forward": lambda _, x, y: forward(x, y)})()


READ = {
    "values": lambda x, y: x + y.values().shape[0],
    "_values": lambda x, y: x + y._values().shape[0],
    "indices": lambda x, y: x + y.indices().shape[1],
    "_indices": lambda x, y: x + y._indices().shape[1],
    "coalesce": lambda x, y: x + y.coalesce().values().shape[0],
    "a sum": lambda x, y: x + (y + y).coalesce().values().shape[0],
    "a product": lambda x, y: x + torch.sparse.mm(y.t(), y).coalesce().values().shape[0],
    "numel": lambda x, y: x + y.values().numel(),
    "len": lambda x, y: x + len(y.values()),
    "content": lambda x, y: x + y.values().sum(),
    "a copy": lambda x, y: (x, y.values() * 2, y.indices()),
    "made here": lambda x, y: x + torch.sparse_coo_tensor(y.indices(), y.values(), (4, 3)).to_dense().sum(),
    "dense": lambda x, y: x.sum() + y.to_dense(),
    "a sparse sum": lambda x, y: x + torch.sparse.sum(y),
    "a view of them": lambda x, y: x + y.values().reshape(-1, 1).shape[0],
}


@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize("example", [FULL.to_sparse(), torch.zeros(4, 3).to_sparse()], ids=["some", "none"])
def test_a_number_of_elements_is_read_at_run_time(name, example):
    mod = model(READ[name])
    report = check(mod, (torch.ones(3, 3), example), dynamic_shapes=SHAPES)
    assert report.status == "proved"
    run = report.program.module()
    for inputs in itertools.product(map(torch.ones, (0, 1, 4), (3, 3, 3)), OTHERS):
        torch.testing.assert_close(run(*inputs), mod(*inputs))


@few(8)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=8), st.sampled_from(["_values", "values"]))
def test_what_is_known_of_the_number_holds_of_every_tensor(places, read):
    """Law: at least 0; and at most one for each place, where `values` does not raise."""
    indices = torch.tensor(places, dtype=torch.long).reshape(-1, 2).t()
    tensor = torch.sparse_coo_tensor(indices, torch.ones(len(places)), (4, 3))
    tensor = tensor.coalesce() if read == "values" else tensor
    rows = getattr(tensor, read)().shape[0]
    assert rows >= 0
    assert read != "values" or rows <= 12


def test_a_branch_on_the_number_is_about_data():
    report = check(
        model(lambda x, y: x * (2 if y.values().shape[0] > 3 else 3)),
        (torch.ones(3, 3), FULL.to_sparse()),
        dynamic_shapes=SHAPES,
    )
    assert [each.id for each in report.diagnostics] == ["data-dependent"]


def test_a_dense_tensor_without_elements_is_no_proof():
    """Torch runs `to_sparse` on zeros to find out what it gives."""
    mod = type("Model", (torch.nn.Module,), {"forward": lambda _, x: x + x.to_sparse().values().shape[0]})()
    report = check(mod, (torch.zeros(4, 3),))
    assert report.program is None or agree(mod, report.program.module(), (FULL,))


HIDDEN = {
    "_nnz": lambda x, y: x + y._nnz(),
    "of a result": lambda x, y: x + (y * 2)._nnz(),
    "is_coalesced": lambda x, y: x + (1 if y.is_coalesced() else 2),
    "_version": lambda x, _: x + x._version,
    "data_ptr": lambda x, _: x + (x.data_ptr() % 2),
    "a compressed tensor": lambda x, _: x + torch.sparse_csr_tensor([0, 1], [0], [1.0]).shape[1],
    "a nested tensor": lambda x, _: torch.nested.nested_tensor([x, x]).to_padded_tensor(0.0),
}


@pytest.mark.parametrize("name", HIDDEN)
def test_what_a_fake_makes_up_is_refused_with_the_line(name):
    with pytest.raises(UsageError, match=r"at \S+/test_sparse\.py:\d+: "):
        check(model(HIDDEN[name]), (torch.ones(3, 3), FULL.to_sparse()), dynamic_shapes=SHAPES)
    assert check(model(READ["values"]), (torch.ones(3, 3), FULL.to_sparse()), dynamic_shapes=SHAPES).status == "proved"


@pytest.mark.parametrize(
    ("example", "kind"),
    [
        (torch.nested.nested_tensor([FULL, FULL[:2]]), "nested"),
        (torch.nested.nested_tensor([FULL, FULL[:2]], layout=torch.jagged), "nested"),
        (FULL.to_sparse_csr(), "sparse_csr"),
        (FULL.to_sparse_bsr((2, 1)), "sparse_bsr"),
    ],
)
def test_an_example_that_cannot_be_followed_is_refused(example, kind):
    with pytest.raises(UsageError, match=f"`y` is a .*{kind}.*which cannot be exported"):
        check(model(lambda x, _: x * 2), (torch.ones(3, 3), example), dynamic_shapes=SHAPES)


def test_sparse_constants_are_compared_by_what_they_are_made_of():
    assert same_constant(FULL.to_sparse(), FULL.to_sparse())
    assert same_constant(FULL.to_sparse_csr(), FULL.to_sparse_csr())
    assert not same_constant(FULL.to_sparse(), (FULL + 1).to_sparse())
    assert not same_constant(TWICE, TWICE.coalesce())
    assert not same_constant(FULL.to_sparse(), FULL)


def hybrid(dense: torch.Tensor) -> torch.Tensor:
    return dense.to_sparse(1)


def uncoalesced(dense: torch.Tensor) -> torch.Tensor:
    made = dense.to_sparse()
    return torch.sparse_coo_tensor(made.indices(), made.values(), made.shape)


DYNAMIC = {
    "dense": lambda y: y.to_dense() * 2,
    "a product": lambda y: (y * 2).to_dense(),
    "sizes": lambda y: torch.ones(y.shape[0]) * y.shape[1],
    "elements": lambda y: y.coalesce().values() + 1,
    "columns": lambda y: y.coalesce().indices()[0],
    "a check": lambda y: (torch._check(y.shape[0] <= 3), y.to_dense())[1],
}


@pytest.mark.parametrize("make", [torch.Tensor.to_sparse, hybrid, uncoalesced], ids=["sparse", "hybrid", "uncoalesced"])
@pytest.mark.parametrize("name", DYNAMIC)
def test_a_sparse_input_has_dynamic_sizes(name, make):
    """Law: the program does what eager does at every size that is declared, with few elements or many, and refuses."""
    mod = type("Model", (torch.nn.Module,), {"forward": lambda _, y: DYNAMIC[name](y)})()
    shapes = ({0: Dim("n", min=0, max=4), 1: Dim("m", min=0, max=5)},)
    report = check(mod, (make(FULL),), dynamic_shapes=shapes)
    assert report.status == ("refuted" if name == "a check" else "proved")
    if name == "a check":
        assert report.diagnostics[0].witness["y.shape[0]"] == 4
        return
    runs = [report.program.module()]
    runs += [report.program.run_decompositions().module()] if name in {"dense", "sizes"} else []
    for rows, columns in itertools.product(range(6), range(7)):
        given = make(torch.arange(rows * columns).reshape(rows, columns) % 3 * 1.0)
        declared = rows <= 4 and columns <= 5
        assert bool(report.contract.accepts(given)) == declared
        for each in runs:
            if declared:
                torch.testing.assert_close(each(given), mod(given))
            else:
                with pytest.raises(RuntimeError, match="is declared"):
                    each(given)


def test_a_sparse_input_of_many_places_is_never_made_dense():
    shapes = ({0: Dim("n", min=0, max=10**7), 1: Dim("m", min=0, max=10**7)},)
    given = torch.sparse_coo_tensor(torch.tensor([[5, 10**6 - 1], [0, 10**6 - 1]]), torch.ones(2), (10**6, 10**6))
    mod = type("Model", (torch.nn.Module,), {"forward": lambda _, y: y.coalesce().values() * y.shape[0]})()
    report = check(mod, (given,), dynamic_shapes=shapes)
    assert report.status == "proved"
    assert torch.equal(report.program.module()(given), torch.full((2,), 1e6))


def test_another_number_of_dense_dims_is_refused():
    """The fault: a program traced with rows of numbers said of single numbers how many indices a row has."""
    forward = {"forward": lambda _, y: (y._indices().shape[0], y.sparse_dim())}
    program = check(type("Model", (torch.nn.Module,), forward)(), (hybrid(FULL),), dynamic_shapes=(None,)).program
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    assert program.module()(hybrid(FULL)) == (1, 1)
    assert program.report.contract.unchecked == ("y.dense_dim() == 1",)
    for run in (program.module(), torch.export.load(file).module()):
        with pytest.raises((RuntimeError, AssertionError), match="dense_dim"):
            run(FULL.to_sparse())


def test_regions_of_a_sparse_input_are_saved_one_by_one(tmp_path):
    """The fault: loaded together, each refused every sparse tensor; torch reads back that the input was strided."""
    forward = {"forward": lambda _, y: y.to_dense() * 2 if y.shape[0] == 3 else y.to_dense()}
    shapes = ({0: Dim("n", min=1, max=5)},)
    mod = type("Model", (torch.nn.Module,), forward)()
    regions = export(mod, (FULL.to_sparse(),), dynamic_shapes=shapes, branches="split")
    with pytest.raises(UsageError, match=r"an archive forgets that `y` is torch\.sparse_coo: save the programs one by"):
        regions.save(tmp_path / "regions.pt2")
    for number, program in enumerate(regions.programs):
        torch.export.save(program, tmp_path / f"{number}.pt2")
    runs = [torch.export.load(tmp_path / f"{number}.pt2").module() for number in range(len(regions.programs))]
    for rows in range(1, 6):
        (found,) = (made for run in runs if (made := outcome(run, (torch.ones(rows, 3).to_sparse(),))) != RAISES)
        assert torch.equal(found[0], mod(torch.ones(rows, 3).to_sparse()))


TAKEN_APART = {
    "rows": lambda y: len(y._values()),
    "columns": lambda y: y._indices().shape[1],
    "coalesced": lambda y: y.coalesce(),
    "coalesced values": lambda y: y.coalesce().values(),
}


@pytest.mark.parametrize("name", TAKEN_APART)
def test_a_decomposition_that_forgets_elements_is_refused(name):
    """The fault: torch's fakes hold no elements, so rows became 0, and `coalesce` nothing, without a word."""
    mod = type("Model", (torch.nn.Module,), {"forward": lambda _, y: TAKEN_APART[name](y)})()
    program = export(mod, (TWICE,), dynamic_shapes=({0: Dim("n", min=0, max=5)},))
    torch.testing.assert_close(program.module()(TWICE), mod(TWICE))
    with pytest.raises(UsageError, match="as if its sparse tensors held no elements"):
        program.run_decompositions()
