"""What each consumer's own tool makes of a program is run as `ship` runs it, and keeps names, contract and verdict."""

from __future__ import annotations

import functools
from dataclasses import replace

import pytest
import torch
from torch.export import Dim
from torch.fx.experimental.symbolic_shapes import compute_unbacked_bindings

from shapeproof import contract as contracts
from shapeproof.constraints.errors import UsageError
from shapeproof.export import export
from shapeproof.ship import TARGETS, FileDiffers, ship, verify
from tests.calling import Calls

FILES = {"onnx": "model.onnx", "executorch": "model.pte", "aoti": "model.package", "pt2": "model.pt2"}
T, B = Dim("t", min=1, max=40), Dim("batch", min=1, max=4)


def blocks(x, y, flag=True):
    """A divided size, a tensor that is floored, a constant, and two inputs of one size."""
    x = torch.nn.functional.pad(x, (-x.shape[1] % 8, 0))
    return x.unfold(1, 8, 8).sum(-1) if flag else x, y // 3, x.shape[1] // 8


ARGS = (torch.randn(2, 5), torch.arange(-4, 5), True)
SHAPES = {"x": {0: B, 1: T}, "y": {0: 2 * Dim("k", min=1, max=5) + 1}, "flag": None}


@functools.cache
def program():
    return export(Calls(blocks), ARGS, dynamic_shapes=SHAPES)


def installed(to):
    for package in (*TARGETS[to].made_by, TARGETS[to].run_by):
        pytest.importorskip(package)


@pytest.mark.thorough
@pytest.mark.parametrize("to", [pytest.param(each, marks=[pytest.mark.slow] * (each == "aoti")) for each in FILES])
def test_a_consumer_runs_the_program_and_keeps_its_contract(to, tmp_path):
    installed(to)
    path = tmp_path / FILES[to]
    shipped = ship(program(), path, to=to, model=Calls(blocks))
    assert (shipped.status, shipped.ran > 8, shipped.ran) == ("same", True, shipped.compared)
    assert contracts.load(path) == program().report.contract
    assert verify(path).ran > 8
    assert verify(path, Calls(blocks), ARGS, dynamic_shapes=SHAPES).status == "same"
    other = verify(path, Calls(lambda x, y, flag=True: blocks(x * 1.01, y, flag)), ARGS, dynamic_shapes=SHAPES)
    assert other.status == "differs"


@pytest.mark.thorough
def test_dims_of_an_onnx_file_have_the_names_of_the_dims(tmp_path):
    onnx = pytest.importorskip("onnx")
    installed("onnx")
    ship(program(), tmp_path / "model.onnx", to="onnx")
    graph = onnx.load(tmp_path / "model.onnx").graph

    def dims(values):
        return [[dim.dim_param or dim.dim_value for dim in each.type.tensor_type.shape.dim] for each in values]

    assert dims(graph.input) == [["batch", "t"], ["2*k + 1"]]
    assert dims(graph.output)[1] == ["2*k + 1"]
    assert dims(graph.output)[0][0] == "batch"
    assert "s77" not in str(dims(graph.value_info))


@pytest.mark.thorough
def test_dims_that_are_proved_equal_have_one_name_in_an_onnx_file(tmp_path):
    onnx = pytest.importorskip("onnx")
    installed("onnx")
    args, shapes = (torch.ones(4), torch.ones(4), torch.ones(3)), ({0: Dim.AUTO}, {0: Dim("b", max=8)}, {0: Dim.AUTO})
    made = export(Calls(lambda x, y, z: (x + y, z * 2)), args, dynamic_shapes=shapes)
    ship(made, tmp_path / "model.onnx", to="onnx")
    given = onnx.load(tmp_path / "model.onnx").graph.input
    assert [each.type.tensor_type.shape.dim[0].dim_param for each in given] == ["b", "b", "z.shape[0]"]


def floor_by_truncation(program, contract, path):
    """A converter that leaves out the correction by which ONNX's quotient, which is cut off, is rounded down."""
    onnx = pytest.importorskip("onnx")
    TARGETS["onnx"].convert(program, contract, path)
    model = onnx.load(path)
    for node in model.graph.node:
        if node.output[0].startswith("floor_divide"):
            node.op_type = "Identity"
            del node.input[1:]
    onnx.save(model, path)


@pytest.mark.thorough
def test_floor_division_that_is_converted_to_truncation_is_found(tmp_path):
    installed("onnx")
    with pytest.raises(FileDiffers, match=r"result 1\[\d+\]: expected -2, got -1"):
        ship(program(), tmp_path / "model.onnx", to=replace(TARGETS["onnx"], convert=floor_by_truncation))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.thorough
def test_state_that_a_file_of_onnx_does_not_keep_is_found(tmp_path):
    installed("onnx")

    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(()))

        def forward(self, x):
            self.seen.add_(1)
            return x + self.seen

    counting = export(Counting(), (torch.ones(3),), dynamic_shapes=({0: T},))
    with pytest.raises(FileDiffers, match="in the second call"):
        counting.ship(tmp_path / "model.onnx", to="onnx")


@pytest.mark.thorough
def test_a_program_is_shipped_to_one_consumer_after_the_other(tmp_path):
    """The fault: torch.onnx leaves symbols of data pending in the ShapeEnv, at which the next consumer stops."""
    installed("onnx")
    found = export(Calls(lambda x: x[x > 0]), (torch.randn(7),), dynamic_shapes=({0: T},))
    torch.onnx.export(found, dynamo=True, verbose=False)
    (size,) = found.graph.find_nodes(op="placeholder")[0].meta["val"].shape
    assert not compute_unbacked_bindings(size.node.shape_env, [])  # as the next consumer asks; it raised
    for number in range(2):
        assert found.ship(tmp_path / f"{number}.onnx", to="onnx").status == "same"


@pytest.mark.thorough
def test_a_dim_with_the_name_of_a_symbol_of_torch_is_not_named(tmp_path):
    """ONNX Runtime takes dims of one name to be equal: `u0` may be torch's name of a size from data."""
    onnx = pytest.importorskip("onnx")
    installed("onnx")
    found = export(Calls(lambda x: x[x > 0]), (torch.randn(7),), dynamic_shapes=({0: Dim("u0", min=1, max=9)},))
    found.ship(tmp_path / "m.onnx", to="onnx")
    graph = onnx.load(tmp_path / "m.onnx").graph
    (given,), (result,) = graph.input, graph.output
    assert given.type.tensor_type.shape.dim[0].dim_param != result.type.tensor_type.shape.dim[0].dim_param


@pytest.mark.parametrize("to", ["onnx", "executorch"])
def test_what_a_consumer_has_no_operator_for_is_one_sentence(to, tmp_path):
    installed(to)
    transformed = export(Calls(lambda x: torch.linalg.eigvals(x) * 1), (torch.eye(3),))
    with pytest.raises(UsageError, match=r"cannot convert the program: |cannot load the file: ") as caught:
        transformed.ship(tmp_path / "model", to=to)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.thorough
def test_the_contract_of_a_program_of_executorch_stands_beside_it(tmp_path):
    installed("executorch")
    path = tmp_path / "model.pte"
    ship(program(), path, to="executorch")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["model.pte", "model.pte.contract.json"]
    (tmp_path / "model.pte.contract.json").unlink()
    with pytest.raises(UsageError, match=r"model.pte.contract.json cannot be read: No such file"):
        contracts.load(path)
