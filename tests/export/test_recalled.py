"""What operators gave in one trace is given in another of a part of the same domain, and is what a run gives there."""

# ruff: noqa: RUF034 - the two sides of a branch are to be the same

from __future__ import annotations

import pytest
import torch
from torch.export import Dim
from torch.nn import functional

from shapeproof.constraints import formulas as f
from shapeproof.constraints.terms import constant, symbol, unknown
from shapeproof.export import check
from shapeproof.export.explore.compare import equivalence
from shapeproof.export.trace import tracer
from shapeproof.export.trace.calls.recalled import Like, Recalled
from shapeproof.export.trace.trial import Trial
from tests.agreement import agree, is_true_of
from tests.export.tracing import traced

ROWS = Dim("n", min=0, max=6)
N = symbol("n")


def of_floats(size) -> Like:
    return Like((size,), (constant(1),), torch.float32, torch.device("cpu"), differentiable=False)


def test_an_entry_is_found_wherever_its_facts_hold_and_nowhere_else():
    recalled, narrow, wide = Recalled(), f.ge(N, 2), f.ge(N, 0)
    entry = of_floats(N)
    recalled.note("call", frozenset({wide, narrow}), entry)
    assert recalled.of("call", frozenset({wide, narrow, f.le(N, 6)})) is entry
    assert recalled.of("call", frozenset({wide})) is None
    assert recalled.of("another", frozenset({wide, narrow})) is None


@pytest.mark.parametrize("strange", [torch.SymFloat, torch.SymBool, unknown("s77*0.5"), N + unknown("f") * 2])
def test_what_only_the_names_of_one_trace_tell_is_in_no_entry(strange):
    recalled = Recalled()
    for call in (("call", (strange, "1")), (("call", (strange, "1")), f.eq(N, 1))):
        recalled.note(call, frozenset(), of_floats(N))
        assert recalled.of(call, frozenset()) is None


LAYERS = (
    lambda x: functional.scaled_dot_product_attention(x[None], x[None], x[None])[0],
    lambda x: torch.cat([x, x.t().reshape(x.shape)], 1).mean(1, keepdim=True).expand_as(x),
    lambda x: x.cumsum(0).flip(0).double().float(),
    lambda x: torch.where(x > 0, x, -x).t().clone().t(),
    lambda x: functional.dropout(x.t() @ x, 0.5, training=False).sum() + x,
    lambda x: (x[:, None] * x[None]).sum(0),
)


def layered(x):
    """All layers, a branch on the number of rows whose sides do the same, and all layers once more."""
    for layer in LAYERS:
        x = layer(x)
    x = x * 2 if x.shape[0] == 1 else x * 2
    for layer in LAYERS:
        x = layer(x)
    return x


def model_of(forward):
    return type("Model", (torch.nn.Module,), {"forward": lambda _, x: forward(x)})()


@pytest.fixture
def taken(monkeypatch):
    """How often a trace has taken what another gave."""
    found, ask = [], Recalled.of
    monkeypatch.setattr(Recalled, "of", lambda *asked: (found.append(ask(*asked)), found[-1])[1])
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("tracked", [False, True], ids=["without gradients", "with gradients"])
def test_a_cell_is_givenwhat_a_run_in_it_gives(tracked, taken):
    mod, args = model_of(layered), (torch.randn(3, 4, requires_grad=tracked),)
    with torch.set_grad_enabled(tracked):
        report = check(mod, args, dynamic_shapes={"x": {0: ROWS}})
    assert report.status == "proved", str(report)
    assert report.statistics["traces"] > 1
    assert any(taken)
    assert all(agree(mod, report.program.module(), (torch.randn(n, 4),)) for n in range(7))


@pytest.mark.thorough
@pytest.mark.parametrize("size", [0, 1, 2, 4])
def test_a_program_of_a_cell_is_the_one_that_every_operator_is_run_for(size, taken):
    """Nodes, sizes and strides are equal all over the cell."""
    mod = model_of(layered)
    main = traced(mod, (torch.randn(3, 4),), {"x": {0: ROWS}})
    cell = main.trial.known.assuming(f.eq(N, size))
    recalled = Recalled()

    def traced_in(known, point, recalled):
        trial = Trial(known, point, data=lambda name: name != "n")
        return tracer.trace(mod, main.inputs, trial, recalled=recalled), trial

    traced_in(main.trial.known, main.trial.point, recalled)
    (mine, there), (run, trial) = (traced_in(cell, {"n": size}, each) for each in (recalled, None))
    assert any(taken)
    assert equivalence.difference(mine, run, trial) is None
    assert equivalence.difference(run, mine, there) is None


RESTRICTED = {
    "what holds on one side of a branch": lambda x: (x.t() @ x if x.shape[0] > 3 else x.t() @ x) * x.squeeze(0).sum(),
    "a rank after a branch": lambda x: (x * 2 if x.shape[0] > 3 else x * 3).squeeze(0).cumsum(0),
    "a stride that Python reads": lambda x: x.t().clone() * (x.t().clone().stride(1) if x.shape[0] > 3 else 7),
    "written after a copy or a view": lambda x: (x.cumsum(0), x.t().contiguous().add_(1 if x.shape[0] > 3 else 2), x),
    "data": lambda x: (x.cumsum(0) if x.shape[0] > 3 else x)[x[:, 0] > 0].cumsum(0),
}


@pytest.mark.parametrize("name", RESTRICTED)
def test_a_model_has_a_true_verdict_where_cells_recall(name):
    mod = model_of(RESTRICTED[name])
    report = check(mod, (torch.randn(5, 4),), dynamic_shapes={"x": {0: ROWS}})
    assert is_true_of(report, mod, ((torch.randn(n, 4),) for n in range(7)))
