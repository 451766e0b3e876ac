"""What the refusals at run time rely on in torch, one small test for each fact. Nothing of shapeproof runs here."""

from __future__ import annotations

import contextlib
import copy
import io

import pytest
import torch
from torch.export import Dim
from torch.overrides import TorchFunctionMode

KIND = torch.ops.aten._assert_tensor_metadata.default


class Twice(torch.nn.Module):
    def forward(self, x, y):
        return x * 2 if y is None else y


@pytest.fixture
def program():
    return torch.export.export(Twice(), (torch.ones(3, 4), None), dynamic_shapes=({0: Dim("n")}, None))


def saved(program):
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    buffer.seek(0)
    return torch.export.load(buffer)


def test_kinds_are_asserted_by_an_operator_that_takes_a_meta_tensor_for_any_device():
    KIND(torch.ones(2), None, None, torch.float32, device=torch.device("cpu"), layout=torch.strided)
    with pytest.raises(RuntimeError, match="dtype mismatch"):
        KIND(torch.ones(2), None, None, torch.float64)
    KIND(torch.ones(2, device="meta"), None, None, torch.float32, device=torch.device("cpu"))


def test_strides_and_sizes_cannot_be_asserted_in_a_graph_that_is_traced_again():
    """The fake implementation compares a list with a tuple, before 2.14."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    KIND(torch.ones(2, 3), None, [3, 1])
    refused = pytest.raises(AssertionError, match="strides mismatch")
    with FakeTensorMode(), refused if torch.__version__ < "2.14" else contextlib.nullcontext():
        KIND(torch.ones(2, 3), None, [3, 1])


@pytest.mark.thorough
def test_a_permuted_input_that_is_asserted_on_keeps_its_rank_when_the_graph_is_traced_again(program):
    graph = program.graph
    node = next(each for each in graph.nodes if each.op != "placeholder")
    given = next(iter(graph.find_nodes(op="placeholder")))
    with graph.inserting_before(node):
        seen = graph.call_function(torch.ops.aten.permute.default, (given, [0, 1]))
        held = graph.call_function(KIND, (seen, None, None, torch.float32))
    seen.meta = {**node.meta, "val": given.meta["val"].permute(0, 1)}
    held.meta = {**node.meta, "val": None}
    program.graph_module.recompile()
    again = program.run_decompositions()
    (kept,) = again.graph.find_nodes(op="call_function", target=KIND)
    assert kept.args[0].target is torch.ops.aten.permute.default
    for each in (program, again):
        with pytest.raises(RuntimeError, match="number of dimensions"):
            each.module(check_guards=False).forward(torch.ones(3, 4, 1), None)


def test_a_saved_program_takes_guards_along_and_its_module_compiles_them(program):
    program._guards_code = ["L['flat_args'][1] is None", "L['flat_args'][0].stride() == (4, 1)"]
    run = saved(program).module()
    assert run(torch.ones(5, 4), None).shape == (5, 4)
    with pytest.raises(AssertionError, match="Guard failed: y is None"):
        run(torch.ones(5, 4), torch.ones(5, 4))
    with pytest.raises(AssertionError, match=r"Guard failed: x\.stride\(\) == \(4, 1\)"):
        run(torch.ones(4, 5).t(), None)


def test_guards_are_not_taken_along_when_a_program_is_decomposed(program):
    program._guards_code = ["L['flat_args'][1] is None"]
    assert program.run_decompositions()._guards_code == []


def test_a_copy_of_a_module_loses_its_hooks_and_keeps_its_guards(program):
    run = program.module()
    run.register_forward_pre_hook(lambda *_: None)
    copied = copy.deepcopy(run)
    assert not copied._forward_pre_hooks
    assert copied.graph.find_nodes(op="call_module")[0].target == "_guards_fn"


@pytest.mark.parametrize("kept", [True, False])
def test_dead_code_of_a_module_is_what_gives_nothing_and_is_not_called_impure(program, kept):
    run = program.module()
    run._guards_fn._is_impure = kept
    run.graph.eliminate_dead_code()
    assert bool(run.graph.find_nodes(op="call_module")) == kept


def test_a_module_is_not_guarded_by_torch_if_it_is_told_so(program):
    run = program.module(check_guards=False)
    run.validate_inputs = False
    assert not hasattr(run, "_guards_fn")
    assert run(torch.ones(5, 7), None).shape == (5, 7)


def test_a_mode_sees_what_is_read_of_a_tensor():
    seen = []

    class Watch(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    x = torch.ones(2)
    with Watch():
        _ = x.requires_grad, x.stride(), x.storage_offset(), x.is_contiguous(), x.dim_order()
    names = ("stride", "storage_offset", "is_contiguous", "dim_order")
    assert seen[:4] == [torch.Tensor.requires_grad.__get__, *(getattr(torch.Tensor, name) for name in names[:3])]
    assert torch.Tensor.dim_order in seen


def test_contiguous_calls_no_operator_where_there_is_nothing_to_copy():
    """So a trace must call the operator itself, for tensors that are not contiguous in another run."""

    class Flat(torch.nn.Module):
        def forward(self, x):
            return x.contiguous() * 2

    graph = torch.export.export(Flat(), (torch.ones(3, 4),)).graph
    assert not graph.find_nodes(op="call_function", target=torch.ops.aten.contiguous.default)
