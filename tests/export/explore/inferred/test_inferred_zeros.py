"""Inferred sizes whose product must not be 0: only the factor that must not be 0 is narrowed."""

import itertools

import pytest
import torch
from torch.export import Dim

from shapeproof.export import check
from tests.agreement import agree

MODELS = {
    "rows": (lambda x: x.reshape(-1, x.shape[1]), 1),
    "columns": (lambda x: x.t().reshape(x.shape[1], -1) * 2, 1),
    "after a product": (lambda x: (x @ x.t() @ x).relu().reshape(-1, x.shape[1]), 1),
    "of neither": (lambda x: x.reshape(x.shape[1], -1).view(x.shape[0], -1) + 1, 2),
}


@pytest.mark.parametrize("name", MODELS)
def test_no_rows_are_kept_where_eager_takes_them(name):
    function, bounded = MODELS[name]
    model = type("Model", (torch.nn.Module,), {"forward": lambda _, x: function(x)})()
    report = check(model, (torch.ones(3, 4),), dynamic_shapes=({0: Dim.AUTO, 1: Dim.AUTO},))
    assert report.status == "proved", str(report)
    assert len(report.notes) == bounded, str(report)
    run, served = report.program.module(), 0
    for sizes in itertools.product(range(4), repeat=2):
        x = torch.randn(sizes)
        try:
            model(x)
        except RuntimeError:
            with pytest.raises(Exception, match="shape"):
                run(x)
            continue
        served += 1
        assert agree(model, run, (x,))
    assert served == (9 if bounded == 2 else 12)
