"""A row that is taken by a size, and indices made of sizes: eager raises for all data where there is no such row."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

from shapeproof.contract import OutsideDomain
from shapeproof.export import check
from tests.agreement import RAISES, outcome

EACH = [(torch.ones(n, 3), torch.ones(m, 3)) for n in range(6) for m in range(6)]


class Selected(torch.nn.Module):
    """torch's fake kernel does not look at an index that is a size."""

    def forward(self, x, y):
        return x[y.shape[0]]


class FromTheEnd(torch.nn.Module):
    def forward(self, x, y):
        return x[-y.shape[0]]


class Added(torch.nn.Module):
    """Without rows to add to, eager looks at no index: it does not raise at the smallest point beyond the rows."""

    def forward(self, x, y):
        return x.index_add(0, torch.arange(y.shape[0]), y)


def whole(x):
    return x.to(torch.int64)


DIVIDING = {
    "//": lambda x, k: x // k,
    "%": lambda x, k: x % k,
    "div": lambda x, k: torch.div(x, k, rounding_mode="trunc"),
    "fmod": torch.fmod,
    "in place": lambda x, k: x.clone().floor_divide_(k),
}


class Divided(torch.nn.Module):
    """Integers by a size: of no rows nothing is divided, and nothing raises."""

    def __init__(self, operation):
        super().__init__()
        self.operation = operation

    def forward(self, x, y):
        return self.operation(whole(x), x.shape[0] - y.shape[0])


@pytest.mark.parametrize("least", [0, 2])
@pytest.mark.parametrize("name", DIVIDING)
def test_integers_divided_by_a_size_that_may_be_0(name, least):
    """The fault: both raise at every such size, and the program was proved."""
    mod, rows, others = Divided(DIVIDING[name]), Dim("n", min=least, max=4), Dim("m", min=3, max=9)
    dims = {"x": {0: rows}, "y": {0: others}}
    args = (torch.ones(2, 3), torch.ones(9, 3))
    report = check(mod, args, dynamic_shapes=dims)
    assert report.status == "refuted"
    (found,) = report.diagnostics
    assert found.witness == {"x.shape[0]": 3, "y.shape[0]": 3}
    assert outcome(mod, (torch.ones(3, 3), torch.ones(3, 3))) == RAISES
    dims["y"] = {0: Dim("m", min=5, max=9)}
    assert check(mod, args, dynamic_shapes=dims).status == "proved"


def test_an_integer_divided_by_its_own_rows():
    """Where the divisor is 0, there is nothing to divide."""
    mod = Divided(DIVIDING["//"])
    mod.operation = lambda x, _: x // x.shape[0]
    report = check(mod, (torch.ones(2, 3), torch.ones(9, 3)), dynamic_shapes={"x": {0: Dim("n", min=0)}, "y": None})
    assert report.status == "proved"


MODELS = [Selected, FromTheEnd, Added]


@pytest.mark.parametrize("made", MODELS)
def test_a_claim_to_a_row_that_is_not_there_is_refuted(made):
    dims = {"x": {0: Dim("n", min=0, max=6)}, "y": {0: Dim("m", min=0, max=6)}}
    report = check(made(), (torch.ones(5, 3), torch.ones(2, 3)), dynamic_shapes=dims)
    assert report.status == "refuted"
    (found,) = report.diagnostics
    assert found.id == "relation"
    assert outcome(made(), tuple(torch.ones(found.witness[f"{name}.shape[0]"], 3) for name in "xy")) == RAISES


@pytest.mark.parametrize("made", MODELS)
def test_inferred_sizes_keep_to_the_rows_that_are_there(made):
    dims = {"x": {0: Dim.AUTO}, "y": {0: Dim.AUTO}}
    report = check(made(), (torch.ones(5, 3), torch.ones(2, 3)), dynamic_shapes=dims)
    assert report.status == "proved"
    run = report.program.module()
    for args in EACH:
        if outcome(made(), args) == RAISES:
            with pytest.raises(OutsideDomain):
                run(*args)
        else:
            assert torch.equal(run(*args), made()(*args))
