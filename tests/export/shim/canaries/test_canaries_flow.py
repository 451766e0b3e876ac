"""What is relied on of torch and Python where exceptions, lookups and transforms are followed: a test for each."""

from __future__ import annotations

import dis
import enum
import inspect
import io
import operator
import subprocess
import sys

import pytest
import sympy
import torch
from torch._export.serde import serialize
from torch._higher_order_ops.associative_scan import associative_scan_op
from torch._higher_order_ops.map import map_impl
from torch._higher_order_ops.scan import scan_op
from torch._higher_order_ops.while_loop import (
    while_loop_fake_tensor_mode,
    while_loop_op,
    while_loop_stack_output_op,
)
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import Dim
from torch.fx.experimental import sym_node
from torch.fx.experimental.proxy_tensor import get_proxy_mode, make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from shapeproof.export.graph import emit
from shapeproof.export.shim import callers
from shapeproof.export.shim.numbers.symbols import UNREADABLE

N = Dim("n", min=0, max=9)


class Absolute(torch.nn.Module):
    def forward(self, x):
        return x * abs(x.shape[0] - 4)


class CatchesAShape(torch.nn.Module):
    def forward(self, x):
        try:
            return x.reshape(2, 2)
        except RuntimeError:
            return x + 1


class Kind(enum.IntEnum):
    LARGE = 37


class Doubles(torch.nn.Module):
    def forward(self, x):
        return torch.vmap(lambda row: row * 2)(x)


@pytest.mark.parametrize("check", [torch._check, torch._check_value, torch._check_index, torch._check_type])
def test_a_check_of_torchs_hands_its_kind_of_error_on(check):
    """frames.raised_by_check relies on it."""
    assert list(inspect.signature(torch._check_with).parameters)[:2] == ["error_type", "cond"]
    assert "_check_with(" in inspect.getsource(check)


def test_a_symbolic_size_has_no_hash_and_its_class_is_written_in_python():
    """shim/numbers/protocols.py relies on it."""
    with pytest.raises(TypeError, match="unhashable"):
        hash(ShapeEnv().create_unbacked_symint())
    assert inspect.isfunction(torch.SymInt.__hash__)


def test_torch_takes_a_condition_for_a_bool_in_a_branch_alone():
    """shim/numbers/protocols.py relies on it; where it is more, part of that file can go."""
    same = (ShapeEnv().create_unbacked_symint() == 37) == 1
    assert same.node.expr == sympy.false  # whatever the number: to sympy no condition is one
    assert {"__lt__", "__index__", "__float__"}.isdisjoint(vars(torch.SymBool))
    assert ("__xor__" in vars(torch.SymBool)) == (torch.__version__ >= "2.14")


def test_torch_takes_no_operand_of_a_derived_class():
    """shim/numbers/protocols.py relies on it."""
    n = ShapeEnv().create_unbacked_symint()
    assert (n == Kind.LARGE) is False  # whether they are one object
    with pytest.raises(TypeError):
        n + Kind.LARGE
    assert sym_node.to_node(n.node, 37).is_int()


def test_a_number_that_a_fake_kernel_brings_is_pending_until_it_is_given():
    """trace/calls/fakes.py relies on it: what is not among these is what the fake kernel claims."""
    env = ShapeEnv()
    n = env.create_unbacked_symint()
    assert env.pending_fresh_unbacked_symbols == [n.node.expr]


def test_torch_records_an_operator_before_it_runs_it():
    """tracer._unrecorded_if_it_fails relies on it: an operator that fails leaves its node."""
    program = torch.export.export(CatchesAShape(), (torch.ones(5),))
    assert torch.ops.aten.reshape.default in [node.target for node in program.graph.nodes]


def test_torch_wants_the_mode_to_have_its_own_dispatch():
    """tracer._watch_recording relies on it: a function that is no method is refused, a method of an instance is not."""

    def traced(bind):
        def inside(x):
            mode = get_proxy_mode()
            record = mode.__torch_dispatch__
            mode.__torch_dispatch__ = bind(lambda *args: record(*args[-4:]), mode)
            return x + 1

        return make_fx(inside)(torch.ones(2))

    with pytest.raises(RuntimeError, match="as a classmethod is not supported"):
        traced(lambda function, _: lambda *args: function(None, *args))
    assert traced(lambda function, mode: function.__get__(mode))(torch.ones(2)).sum() == 4


def test_a_program_of_vmap_does_not_end_it_where_it_fails():
    """shim/process/transforms.py relies on it, and on how deep the stack is."""
    program = torch.export.export(Doubles(), (torch.ones(3),), dynamic_shapes=({0: N},)).module()
    functorch = torch._C._functorch
    before = functorch.get_dynamic_layer_stack_depth()
    with pytest.raises(IndexError):
        program(torch.ones(0))
    assert functorch.get_dynamic_layer_stack_depth() == before + 1
    functorch.pop_dynamic_layer_stack_and_undo_to_depth(before)
    assert functorch.get_dynamic_layer_stack_depth() == before


def test_torch_counts_what_begins_and_ends_a_vmap_as_dead():
    """shim/process/transforms.py tells it otherwise: in a process without us, `unflatten` drops these calls."""
    code = """
import torch
from torch.fx.node import _side_effectful_functions as kept
from torch._functorch import predispatch as p
print([each in kept for each in (p._vmap_increment_nesting, p._vmap_decrement_nesting, p._jvp_increment_nesting)])
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[False, False, True]"


def test_torchs_serializer_does_not_know_absolute_values():
    """graph/emit.py relies on it; where it does, `make_serializable` can go."""
    program = torch.export.export(Absolute(), (torch.ones(5),), dynamic_shapes=({0: N},))
    assert operator.abs in [node.target for node in program.graph.nodes]
    with pytest.raises(Exception, match="Failed serializing node"):
        torch.export.save(program, io.BytesIO())


def test_torchs_serializer_knows_the_functions_of_numbers_that_a_graph_computes():
    """graph/emit.py takes them from Python's operators, and from torch's functions of symbolic numbers."""
    computed = set(emit._REAL.values()) | set(emit._INTEGER.values())
    assert computed <= serialize._SYM_OPS
    assert {operator.add, operator.pow, operator.truediv, torch.sym_min, torch.sym_sqrt} <= computed


def test_python_tells_which_instructions_a_handler_covers():
    """source/handlers.py relies on it."""

    def guarded(operation):
        try:
            operation()
        except ValueError:
            return 1
        return 2

    names = {step.offset: step.opname for step in dis.get_instructions(guarded)}
    entries = dis._parse_exception_table(guarded.__code__)
    assert {names[entry.target] for entry in entries} == {"PUSH_EXC_INFO", "COPY"}
    assert "CHECK_EXC_MATCH" in names.values()


def test_torchs_attention_asks_what_the_shim_answers():
    """`attention_as_in_eager` replaces two functions that these modules look up, and reads the names of an encoder."""
    attention, encoder = torch.nn.MultiheadAttention.forward, torch.nn.TransformerEncoder.forward
    assert "torch.overrides.has_torch_function(" in inspect.getsource(attention)
    asking = inspect.getsource(encoder).index("torch.backends.mha.get_fastpath_enabled()")
    assert inspect.getsource(encoder).index("first_layer = ") < asking
    assert {"self", "src", "mask", "src_key_padding_mask", "first_layer"} <= set(encoder.__code__.co_varnames)
    disabled = torch._C._disabled_torch_function_impl
    assert torch.nn.Parameter.__torch_function__ is disabled


def test_the_method_contiguous_is_of_the_base_of_tensors_and_asks_before_it_calls():
    """`contiguous_by_its_operator` gives the class of fake tensors a method of its own, and takes it away again."""
    assert FakeTensor.contiguous is torch.Tensor.contiguous is torch._C.TensorBase.contiguous
    assert not any("contiguous" in vars(each) for each in (FakeTensor, torch.Tensor))
    seen = []

    class Seen(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    with Seen():
        torch.ones(2, 3).contiguous()
    assert all("ones" in str(func) for func in seen)


def test_dynamo_raises_its_own_exception_where_a_branch_of_cond_fails():
    """plain_numbers._taking relies on it: the condition is then decided like that of an `if`."""

    def failing(x):
        torch._check(x.shape[0] > 3)
        return x

    with pytest.raises(UNREADABLE):
        torch.cond(torch.tensor(True), failing, torch.neg, (torch.ones(3),))


def test_a_loop_that_keeps_its_rounds_keeps_one_row_at_least_and_draws_their_number_in_its_fake():
    """callers.rounds states it of the symbol that is drawn there."""
    assert "n_iter = _create_unbacked_symint(" in inspect.getsource(while_loop_fake_tensor_mode)
    for rounds in (0, 1, 3):
        kept = while_loop_stack_output_op(
            lambda i: i < rounds,  # noqa: B023 - called in this round alone
            lambda i: (i + 1,),
            (torch.tensor(0),),
            (),
        )
        assert kept[0].shape[0] == max(rounds, 1)


def test_torch_runs_the_rounds_of_its_loops_in_these_files():
    """callers.round_of_a_loop: a file that is no more there would hide that a body stands for every round."""
    loops = (while_loop_op, scan_op, associative_scan_op, map_impl)
    assert {inspect.getsourcefile(type(each)) for each in loops} == callers._LOOPS
