"""`verify`: a file that exists is run beside the model, or by its contract alone."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

from shapeproof.constraints.errors import UsageError
from shapeproof.export import export
from shapeproof.ship import ship, verify
from shapeproof.ship.beside import unlike
from tests.calling import Calls

SHAPES = ({0: 2 * Dim("half", min=1, max=9)}, {0: Dim("n", min=0, max=5)})
ARGS = (torch.randn(4, 2), torch.tensor([3, 7]))


def model(x, i):
    return x.view(-1, 2, 2).sum(1), i % 4


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("shipped") / "model.pt2"
    ship(export(Calls(model), ARGS, dynamic_shapes=SHAPES), path, to="pt2")
    return path


def test_the_same_model_is_the_same(file):
    assert verify(file, Calls(model), ARGS, dynamic_shapes=SHAPES).status == "same"


def test_another_model_differs_at_its_smallest_size(file):
    other = verify(file, Calls(lambda x, i: (model(x, i)[0], i % 3)), ARGS, dynamic_shapes=SHAPES)
    assert (other.status, dict(other.sizes)) == ("differs", {"half": 1, "i.shape[0]": 1})
    assert "result 1[0]: expected" in other.text


def test_another_dtype_or_size_of_a_result_differs(file):
    double = verify(file, Calls(lambda x, i: (model(x, i)[0].double(), i % 4)), ARGS, dynamic_shapes=SHAPES)
    assert double.text == "result 0: expected float64 [1, 2], got float32 [1, 2]"
    one = verify(file, Calls(lambda x, i: model(x, i)[0]), ARGS, dynamic_shapes=SHAPES)
    assert one.text == "expected 1 results, got 2"


def test_without_a_model_nothing_is_called_the_same(file):
    alone = verify(file)
    assert alone.status == "undecided"
    assert (alone.compared, alone.ran > 8, alone.refused > 0) == (0, True, True)
    assert "nothing was compared with eager; " in str(alone)


def test_other_declarations_are_refused(file):
    with pytest.raises(UsageError, match=r"declares x: \[m, 2\], but the contract of the file has x: \[2\*half, 2\]"):
        verify(file, Calls(model), ARGS, dynamic_shapes=({0: Dim("m", min=1)}, SHAPES[1]))
    with pytest.raises(UsageError, match="declares x: float64, but the contract of the file has float32"):
        verify(file, Calls(model), (ARGS[0].double(), ARGS[1]), dynamic_shapes=SHAPES)


@pytest.mark.parametrize(
    ("largest", "said"),
    [
        (8, r"declares i.shape\[0\] <= 8, but the contract of the file has more sizes"),
        (12, r"contract of the file has i.shape\[0\] <= 10, but the target declares more sizes"),
    ],
)
def test_a_domain_other_than_that_of_the_file_is_refused(tmp_path, largest, said):
    def shapes(most):
        return (SHAPES[0], {0: Dim("n", min=0, max=most)})

    ship(export(Calls(model), ARGS, dynamic_shapes=shapes(10)), tmp_path / "model.pt2", to="pt2")
    with pytest.raises(UsageError, match=said):
        verify(tmp_path / "model.pt2", Calls(model), ARGS, dynamic_shapes=shapes(largest))


def test_a_domain_that_was_inferred_is_that_of_the_file(tmp_path):
    shapes = (SHAPES[0], {0: Dim.AUTO})
    added = Calls(lambda x, i: (x.sum() + torch.ones(5) * i,))
    ship(export(added, (ARGS[0], torch.arange(5)), dynamic_shapes=shapes), tmp_path / "model.pt2", to="pt2")
    assert verify(tmp_path / "model.pt2", added, (ARGS[0], torch.arange(5)), dynamic_shapes=shapes).status == "same"


def test_a_file_without_contract_and_one_of_no_consumer_are_refused(tmp_path):
    torch.export.save(torch.export.export(Calls(model), ARGS), tmp_path / "plain.pt2")
    with pytest.raises(UsageError, match="was not exported by this package"):
        verify(tmp_path / "plain.pt2")
    with pytest.raises(UsageError, match="cannot be read"):
        verify(tmp_path / "none.pt2")
    export(Calls(model), ARGS, dynamic_shapes=SHAPES).report.contract.save(tmp_path / "c.json")
    with pytest.raises(UsageError, match="no file of a consumer; there are onnx, executorch, aoti, pt2"):
        verify(tmp_path / "c.json")


@pytest.mark.parametrize(
    ("want", "got", "text"),
    [
        (torch.ones(3), torch.ones(3) + 1e-6, None),
        (torch.ones(3), torch.ones(3) + 1e-3, "[0]: expected 1.0, got 1.0"),
        (torch.ones(3).double(), torch.ones(3).double() + 1e-6, "[0]: expected 1.0, got 1.0"),
        (torch.ones(3).half(), torch.ones(3).half() + 1e-3, None),
        (torch.tensor([1, 2]), torch.tensor([1, 3]), "[1]: expected 2, got 3"),
        (torch.tensor(True), torch.tensor(False), ": expected True, got False"),
        (torch.tensor([float("nan"), 1]), torch.tensor([float("nan"), 1]), None),
        (torch.tensor([float("inf"), 1]), torch.tensor([3.0, 1]), "[0]: expected inf, got 3.0"),
        (torch.tensor([1e6, 1e6, 1.0]), torch.tensor([1e6, 1e6, 1.001]), None),
        (torch.tensor([-3e38, 1.0, 1.0]), torch.tensor([-3e38, 1.0, 1.1]), "[2]: expected 1.0, got 1.1"),
        (torch.empty(0, 2), torch.empty(0, 2), None),
        (torch.ones(2), torch.ones(2, 1), ": expected float32 [2], got float32 [2, 1]"),
        (torch.ones(2), torch.ones(2, dtype=torch.int64), ": expected float32 [2], got int64 [2]"),
        (torch.ones(2), 1.0, ": expected float32 [2], got 1.0"),
        (torch.tensor([1 + 1j]), torch.tensor([1 + 2j]), "[0]: expected (1+1j), got (1+2j)"),
        (4, torch.tensor(4), None),
        (4, torch.tensor([4]), ": expected 4, got int64 [1]"),
        (0.1, torch.tensor(0.1), None),
        (float("nan"), torch.tensor(float("nan")), None),
        (0.5, torch.tensor(0.6), ": expected 0.5, got 0.6"),
        ("a", "b", ": expected 'a', got 'b'"),
    ],
)
def test_values_are_compared_by_their_dtype(want, got, text):
    found = unlike(want, got)
    assert found is None if text is None else found is not None and found.startswith(text)
