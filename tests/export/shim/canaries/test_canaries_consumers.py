"""Facts about consumers that known_sizes.py and decompose.py rely on."""

from __future__ import annotations

import operator
import pickle
import types

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._sympy.functions import FloorDiv
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

from shapeproof.export import export


def test_torch_bounds_a_quotient_of_one_symbol_loosely():
    (s,) = ShapeEnv().create_unbacked_symint().node.expr.free_symbols
    assert bound_sympy(FloorDiv(s, FloorDiv(s, 2)), {s: ValueRanges(2, 16)}).upper == 16


def test_torch_loads_no_pickle_of_a_program():
    """Else the pickle of a program could be torch's own. What 2.15 loads has lost its metadata, and does not run."""
    program = torch.export.export(nn.ReLU(), (torch.ones(3),))
    error, match = (TypeError, "scope_root") if torch.__version__ < "2.15" else (KeyError, "val")
    with pytest.raises(error, match=match):
        pickle.loads(pickle.dumps(program)).module()  # noqa: S301 - written here


@pytest.mark.thorough
def test_executorch_admits_no_function_of_torch_and_all_of_pythons_operators():
    pytest.importorskip("executorch")
    from executorch.exir.passes.executorch_prim_ops_registry import _PYTHON_SYM_OPS_TO_EXECUTORCH_SYM_OPS as known
    from executorch.exir.verification.verifier import EXIREdgeDialectVerifier

    admit = EXIREdgeDialectVerifier().check_valid_edge_op
    assert isinstance(torch.sym_float, types.FunctionType)
    for function in (torch.sym_float, torch.sym_min, torch.sym_max):
        with pytest.raises(AssertionError):
            admit(function)
    admit(operator.truediv)
    assert operator.truediv in known


@pytest.mark.parametrize("n", [0, 1, 3, 2**53 + 1, 2**62 + 1])
def test_a_size_divided_by_one_is_its_double(n):
    assert n / 1 == float(n)


def test_a_program_is_validated_before_it_is_saved(tmp_path, monkeypatch):
    """So clamps are written in time."""
    program = export(nn.ReLU(), (torch.ones(3, 2),), dynamic_shapes=({0: Dim("n", min=0, max=4)},))
    asked = []
    validate = type(program).validate
    monkeypatch.setattr(type(program), "validate", lambda self: (asked.append(self), validate(self)))
    torch.export.save(program, tmp_path / "program.pt2")
    assert asked == [program]
