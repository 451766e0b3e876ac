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
