"""Views have the sizes they are asked for, at 0 too; what nothing uses refutes nothing by its shape."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

from shapeproof.export import check
from tests.agreement import agree


def model(forward):
    return type("Model", (torch.nn.Module,), {"forward": lambda _, x: forward(x)})()


N, M = Dim("n", min=0, max=6), Dim("m", min=1, max=3)
VIEWS = {
    "a size left to torch": (lambda x: x.view(-1, 2, 4), (6, 4), {0: 2 * N}),
    "in the middle": (lambda x: x.view(2, -1, 4), (6, 4), {0: 2 * N}),
    "a size that is given": (lambda x: x.view(x.shape[0] // 2, 2, 4), (6, 4), {0: 2 * N}),
    "a divisor that is a size": (lambda x: x.reshape(x.shape[1] // 2, -1, 2), (6, 4), {0: N, 1: 2 * M}),
    "of what is not contiguous": (lambda x: x.t().reshape(-1, 2, 4), (6, 4), {0: 2 * N}),
    "used on": (lambda x: x.view(-1, 2, 4).sum(1) @ x.new_ones(4, 3), (6, 4), {0: 2 * N}),
    "unflattened": (lambda x: x.unflatten(0, (-1, 2)), (6, 4), {0: 2 * N}),
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_serves_tensors_without_elements(name):
    forward, example, dims = VIEWS[name]
    report = check(model(forward), (torch.randn(example),), dynamic_shapes={"x": dims})
    assert report.status == "proved"
    for run in (report.program.module(), report.program.run_decompositions().module()):
        for sizes in (
            [(2 * n, 4) for n in range(4)] if 1 not in dims else [(n, 2 * m) for n in range(4) for m in (1, 2, 3)]
        ):
            assert agree(model(forward), run, (torch.randn(sizes),))


def test_what_is_inferred_of_a_view_begins_at_0():
    report = check(model(lambda x: x.view(-1, 2, 4)), (torch.randn(6, 4),), dynamic_shapes={"x": {0: Dim.AUTO}})
    assert (report.status, report.domain) == ("proved", ("x.shape[0] >= 0", "x.shape[0] % 2 == 0"))


def test_a_size_that_anything_would_fit_is_refuted():
    report = check(
        model(lambda x: x.view(x.shape[0], -1)),
        (torch.randn(3, 4),),
        dynamic_shapes={"x": {0: N, 1: Dim("k", min=0, max=6)}},
    )
    assert report.diagnostics[0].witness == {"x.shape[0]": 0, "x.shape[1]": 0}


DEAD = {
    "a view": lambda x: (x.squeeze(0), x + 1)[1],
    "every size of 1": lambda x: (x.squeeze(), x + 1)[1],
    "a result of one": lambda x: (x.squeeze(0).sum(), x + 1)[1],
}


@pytest.mark.parametrize("name", DEAD)
def test_the_rank_of_what_nothing_uses_refutes_nothing(name):
    report = check(model(DEAD[name]), (torch.randn(2, 4),), dynamic_shapes={"x": {0: N}})
    assert report.status == "proved"
    for run in (report.program.module(), report.program.run_decompositions().module()):
        assert all(agree(model(DEAD[name]), run, (torch.randn(n, 4),)) for n in range(7))


ALIVE = {
    "returned": lambda x: x.squeeze(0),
    "its rank": lambda x: x + x.squeeze(0).dim(),
    "written into": lambda x: (y := x + 1, y.squeeze(0).add_(torch.ones(1, 4)))[0],
}


@pytest.mark.parametrize("name", ALIVE)
def test_the_rank_of_what_is_used_still_counts(name):
    report = check(model(ALIVE[name]), (torch.randn(2, 4),), dynamic_shapes={"x": {0: N}})
    if report.program is not None:
        assert all(agree(model(ALIVE[name]), report.program.module(), (torch.randn(n, 4),)) for n in range(7))
    else:
        assert report.diagnostics[0].witness == {"x.shape[0]": 1}


def test_a_dead_operator_that_raises_is_refuted():
    forward = lambda x: (x.reshape(x.shape[0], -1), x + 1)[1]  # noqa: E731
    report = check(model(forward), (torch.randn(3, 4),), dynamic_shapes={"x": {0: N}})
    assert report.diagnostics[0].witness == {"x.shape[0]": 0}
