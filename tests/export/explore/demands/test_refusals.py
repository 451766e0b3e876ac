"""What eager refuses whatever the data are, though torch traces it (preconditions.py, graph_demands.py)."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

from shapeproof.constraints.errors import UsageError
from shapeproof.export import check
from tests.agreement import RAISES, agree, outcome

ROWS, ONE = range(6), torch.zeros(1, dtype=torch.long)
REFUSING = {
    "a list": (lambda x, _: x[[0, 3]], 4),
    "a list from the end": (lambda x, _: x[[-2, 0]], 2),
    "a tensor": (lambda x, _: x[torch.tensor([1, 2])], 3),
    "a number computed": (lambda x, _: x[torch.tensor([0, 1]) * 2 + 1], 4),
    "rows selected": (lambda x, _: x.index_select(0, torch.tensor([2])), 3),
    "the largest": (lambda x, y: x.max(0).values + y, 1),
    "the smallest of all": (lambda x, y: x.min() + y, 1),
    "of a slice": (lambda x, y: x[2:].max(0).values + y, 3),
    "the median": (lambda x, y: x.median(0).values + y, 1),
    "the median of numbers": (lambda x, y: x.nanmedian(0).values + y, 1),
    "the mode": (lambda x, y: x.mode(0).values + y, 1),
}
SERVING = {
    "the largest of a row": lambda x, y: x.max(1).values.sum() + y,
    "a list of columns": lambda x, y: x[:, [0, 2]].sum() + y,
    "an index of rows that there are": lambda x, y: torch.cat([x, y])[[0, 1]],
    "an index of a scalar": lambda x, y: x.sum().gather(0, ONE) + y,
    "a place in a scalar": lambda x, y: x.sum().scatter(-1, ONE, 1.0) + y,
    "the largest of more": lambda x, y: torch.cat([x, y]).max(0).values,
}


class Model(torch.nn.Module):
    """A model of one function."""

    def __init__(self, does):
        super().__init__()
        self.does = does

    def forward(self, x, y):
        return self.does(x, y)


def inputs(rows):
    return torch.arange(3.0 * rows).reshape(rows, 3), torch.ones(2, 3)


@pytest.mark.parametrize("branches", ["error", "split"])
@pytest.mark.parametrize("name", REFUSING)
def test_what_too_few_rows_cannot_give_is_refuted(name, branches):
    """The fault: an index of constants, and a reduction beside another input, were proved, though eager raises."""
    forward, fewest = REFUSING[name]
    assert [n for n in ROWS if outcome(Model(forward), inputs(n)) == RAISES] == list(range(fewest))
    shapes = ({0: Dim("n", min=0, max=5)}, None)
    report = check(Model(forward), inputs(5), dynamic_shapes=shapes, branches=branches)
    assert report.status == "refuted", str(report)
    assert report.diagnostics[0].witness == {"x.shape[0]": 0}
    assert report.diagnostics[0].file == __file__
    enough = ({0: Dim("n", min=fewest, max=5)}, None)
    assert check(Model(forward), inputs(5), dynamic_shapes=enough).status == "proved"


@pytest.mark.parametrize("name", SERVING)
def test_what_every_number_of_rows_can_give_is_proved(name):
    mod = Model(SERVING[name])
    report = check(mod, inputs(5), dynamic_shapes=({0: Dim("n", min=0, max=5)}, None))
    assert report.status == "proved", str(report)
    assert all(agree(mod, report.program.module(), inputs(n)) for n in ROWS)


def test_a_bound_that_is_left_out_rises_to_what_can_be_given():
    mod = Model(lambda x, y: x.max(0).values + y)
    report = check(mod, inputs(5), dynamic_shapes=({0: Dim("n")}, None))
    assert report.status == "proved", str(report)
    assert "x.shape[0] >= 1" in report.domain


def test_a_region_in_which_eager_always_raises_is_refuted():
    """The fault: where nothing that was run went well, what eager raised was laid to the data."""

    def forward(x, y):
        return x.max(0).values + y if x.shape[0] != 1 else y

    shapes = ({0: Dim("n", min=0, max=1)}, None)
    report = check(Model(forward), inputs(1), dynamic_shapes=shapes, branches="split")
    assert [diagnostic.witness for diagnostic in report.diagnostics] == [{"x.shape[0]": 0}], str(report)


def test_a_range_of_sizes_that_is_returned_is_called_a_range():
    """The fault: the user was told to register a class of ours."""

    class Model(torch.nn.Module):
        def forward(self, x):
            return x, range(x.shape[0])

    with pytest.raises(UsageError, match="it returns a `range`, which no program can return"):
        check(Model(), (torch.ones(3),), dynamic_shapes={"x": {0: Dim("n", min=0, max=9)}})
