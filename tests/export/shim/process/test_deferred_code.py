"""Torch's code for graphs is deferred while a model is traced, and nobody can tell afterwards."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.export import Dim
from torch.fx import _lazy_graph_module as torchs
from torch.fx.experimental.proxy_tensor import make_fx

from shapeproof.export import check
from shapeproof.export.shim.process.idle_work import code_deferred, code_generated


class Branches(torch.nn.Module):
    """Its program has bodies, which are modules of their own."""

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))


class Fails(torch.nn.Module):
    """It cannot be traced."""

    def forward(self, x):
        raise ValueError(x.shape)


def deferred(x):
    with code_deferred():
        return make_fx(torch.sin)(x)


def test_no_module_of_a_program_has_deferred_code():
    torchs_own = torch.export.export(Branches(), (torch.ones(3),))
    program = check(Branches(), (torch.ones(3),), dynamic_shapes=({0: Dim("n", min=2, max=8)},)).program
    for one, other in zip(torchs_own.graph_module.modules(), program.graph_module.modules(), strict=True):
        assert [each.__name__ for each in type(one).__mro__] == [each.__name__ for each in type(other).__mro__]
    for graph in (each for each in program.graph_module.modules() if isinstance(each, torch.fx.GraphModule)):
        assert graph.code == torch.fx.GraphModule(graph, copy.deepcopy(graph.graph)).code


@pytest.mark.parametrize("model", [Branches(), Fails()])
def test_torchs_flag_is_as_before(model):
    try:
        check(model, (torch.ones(3),), dynamic_shapes=({0: Dim("n", min=2, max=8)},))
    except ValueError:
        assert isinstance(model, Fails)
    assert torchs._use_lazy_graph_module_flag is False


def test_deferred_code_is_generated_when_the_graph_is_called():
    """A canary: torch defers the code with its own flag, and a call or a look at the code finds it."""
    module = deferred(torch.ones(2))
    assert module._needs_recompile()
    assert module(torch.zeros(2)).tolist() == [0, 0]
    assert "sin" in deferred(torch.ones(2)).code


def test_a_module_whose_code_is_generated_is_the_same_module():
    outer = torch.fx.GraphModule({"inner": deferred(torch.ones(2))}, torch.fx.Graph())
    inner = outer.inner = deferred(torch.ones(2))
    inner.meta["mine"] = 1
    code_generated(outer)
    assert outer.inner is inner
    assert not isinstance(inner, torchs._LazyGraphModule)
    assert inner.meta["mine"] == 1
    assert inner(torch.zeros(2)).tolist() == [0, 0]
    assert copy.deepcopy(inner)(torch.zeros(2)).tolist() == [0, 0]
