"""Facts of torch that exact floats rely on: if one of these fails, shim/numbers/sym_nodes.py is to be read again."""

from __future__ import annotations

import inspect
import sys

import pytest
import sympy
import torch
from torch.fx.experimental import sym_node
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from shapeproof.export.shim.numbers.doubles import FUNCTIONS
from shapeproof.export.shim.numbers.sym_nodes import ProofSymNode


@pytest.fixture
def numbers():
    env = ShapeEnv()
    return env.create_unbacked_symint(), env.create_unbacked_symfloat()


def test_torch_computes_over_the_reals(numbers):
    _, v = numbers
    assert (v != v).node.expr == sympy.false  # noqa: PLR0124
    assert torch.sym_not(v <= 0).node.expr == (v > 0).node.expr
    assert (v * 0.3 * 2.5).node.expr == sympy.Float(0.75) * v.node.expr


def test_torch_divides_floats_by_a_floor():
    assert "math.floor(self / sym_float(other))" in inspect.getsource(torch.SymFloat.__floordiv__)
    assert float(int(3.0 * 0.1 / 0.1)) != (3.0 * 0.1) // 0.1 or 6.0 // 0.1 == 59.0


def test_torch_converts_an_integer_that_is_compared_in_promote2(numbers):
    n, v = numbers
    seen = []

    class Node(sym_node.SymNode):
        def sym_float(self):
            frame = sys._getframe()
            while frame is not None:
                seen.append(frame.f_code.co_name)
                frame = frame.f_back
            return super().sym_float()

    n.node.__class__ = Node
    assert isinstance(n < v, torch.SymBool)
    assert "promote2" in seen[:12]


def test_the_least_of_a_number_and_a_symbol_is_asked_of_the_symbol(numbers):
    """Whichever comes first."""
    _, v = numbers
    seen = []

    class Node(sym_node.SymNode):
        def sym_min(self, other):
            seen.append(sys._getframe(2).f_code is torch.sym_min.__code__)
            return super().sym_min(other)

    v.node.__class__ = Node
    torch.sym_min(0.5, v)
    assert seen == [True]


def test_a_power_demands_a_base_that_is_not_negative():
    assert "torch._check(self >= 0)" in inspect.getsource(torch.SymFloat.__pow__)


def test_every_operation_of_a_node_is_one_of_ours():
    for method in (*sym_node.magic_methods, *sym_node.sizes_strides_methods):
        trailing = "_" if method in sym_node.magic_methods_on_operator_with_trailing_underscore else ""
        assert f"_{method}{trailing}" in vars(ProofSymNode), method
    assert all(f"sym_{name}" in sym_node.magic_methods for name in FUNCTIONS)


def test_torch_sees_an_assert_whichever_way_it_is_asked():
    """`assert not n <= 0` too; which way it is, source/frames.py finds out."""
    source = inspect.getsource(ShapeEnv._is_python_assert)
    assert "JUMP" not in source.split("get_assert_bytecode_sequence")[1]


@pytest.mark.parametrize("name", ["linspace", "logspace"])
def test_steps_are_counted_by_a_plain_number(name):
    """A graph cannot hold the operator with a size that stays symbolic."""
    schema = getattr(torch.ops.aten, name).default._schema
    assert str(next(each.type for each in schema.arguments if each.name == "steps")) == "int"
