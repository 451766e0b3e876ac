"""What is relied on of torch's fakes and of its tracer's globals, one small test for each fact."""

from __future__ import annotations

import threading

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import Dim
from torch.fx.experimental import proxy_tensor
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
from torch.overrides import TorchFunctionMode
from torch.utils._sympy.numbers import int_oo

from shapeproof.export.graph import nodes
from shapeproof.export.shim.process.each_call import while_the_model_runs
from shapeproof.export.shim.storages import fresh, storages, view_of

SPARSE = torch.tensor([[1.0, 0, 2], [0, 3, 0]]).to_sparse()


def model(forward):
    return type("Model", (torch.nn.Module,), {"forward": lambda _, x: forward(x)})()


def test_the_fake_of_a_sparse_tensor_holds_no_elements():
    """Hence trace/calls/fakes.py gives its parts as many rows as data give."""
    fake = FakeTensorMode(shape_env=ShapeEnv()).from_tensor(SPARSE, static_shapes=True)
    assert (fake.values().shape, fake.indices().shape) == ((0,), (2, 0))


def test_an_operator_without_a_rule_is_run_on_zeros():
    """Hence nothing that a fake says of `to_sparse` but its sizes is believed."""
    fake = FakeTensorMode().from_tensor(torch.ones(2, 3))
    assert fake.to_sparse().values().shape == (0,)


def test_torch_notes_a_view_by_how_it_splits_dimensions():
    """`n // (n // 2)` has no value at n = 0. Hence trace/calls/fakes.py notes what was asked for."""
    shapes = {"x": {0: 2 * Dim("n", min=2, max=8)}}
    program = torch.export.export(model(lambda x: x.view(-1, 2, 4)), (torch.ones(6, 4),), dynamic_shapes=shapes)
    (noted,) = (
        node.meta["val"].shape
        for node in program.graph.find_nodes(op="call_function", target=torch.ops.aten.view.default)
    )
    assert isinstance(noted[1], torch.SymInt)


def test_torch_takes_an_int_input_for_at_least_0():
    """Hence trace/tracer.py notes where it lies."""
    program = torch.export.export(
        type("Model", (torch.nn.Module,), {"forward": lambda _, x, k: x * k})(),
        (torch.ones(2), 3),
        dynamic_shapes={"x": None, "k": Dim.AUTO},
    )
    (noted,) = program.range_constraints.values()
    assert (noted.lower, noted.upper) == (0, int_oo)


def test_a_trace_is_seen_by_other_threads():
    """Hence shim/process/one_thread.py: what torch patches and keeps while it traces is of the process."""
    seen = {}

    def look():
        seen["call"] = torch.nn.Module.__call__
        seen["tracer"] = proxy_tensor._CURRENT_MAKE_FX_TRACER

    def forward(x):
        other = threading.Thread(target=look)
        other.start()
        other.join()
        return x + 1

    before = torch.nn.Module.__call__
    torch.export.export(model(forward), (torch.ones(2),))
    assert seen["call"] is not before
    assert seen["tracer"] is not None


@pytest.mark.parametrize(("forward", "kept"), [(lambda x: (x.squeeze(0), x + 1)[1], 0), (lambda x: x.squeeze(0), 1)])
def test_torch_keeps_dead_code_and_consumers_do_not(forward, kept):
    """Hence explore/compare/operations.py asks of what is used alone."""
    program = torch.export.export(model(forward), (torch.ones(2, 3),))
    called = [node for node in program.graph.nodes if node.op == "call_function"]
    assert len([node for node in called if "squeeze" in str(node.target)]) == 1
    assert len([node for node in nodes.used(program.graph) if "squeeze" in str(node.target)]) == kept
    apart = program.run_decompositions().graph.nodes
    assert len([node for node in apart if "squeeze" in str(node.target)]) == kept


def test_a_fresh_dynamic_size_with_bounds_is_asserted():
    """Hence what a fake of the user's promises of such a size is checked at run time."""

    @torch.library.custom_op("shapeproof_canaries::some", mutates_args=())
    def some(x: torch.Tensor) -> torch.Tensor:
        return x[:3].clone()

    @some.register_fake
    def _(x):
        return x.new_empty(torch.library.get_ctx().new_dynamic_size(min=0, max=2), *x.shape[1:])

    program = torch.export.export(model(lambda x: some(x) + 1), (torch.ones(4, 3),))
    with pytest.raises(RuntimeError, match="Runtime assertion failed"):
        program.module()(torch.ones(4, 3))


def described(tensor):
    laid = (*tensor.shape, *tensor.stride(), tensor.storage_offset(), tensor.untyped_storage().nbytes())
    return tensor.dtype, tensor.device, tensor.requires_grad, [str(getattr(each, "node", each)) for each in laid]


def test_a_fake_tensor_may_be_made_of_a_meta_tensor():
    """Hence shim/storages.py: torch's own way through its dispatcher makes the same tensor."""
    mode = FakeTensorMode(shape_env=ShapeEnv())
    context = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC, DimDynamic.STATIC])
    n = mode.from_tensor(torch.ones(6, 4), symbolic_context=context).shape[0]
    cpu = torch.device("cpu")
    with mode:
        rows, columns = torch.empty((n, 3)), torch.empty_strided((n, 3), (1, n), dtype=torch.float64)
        view = torch.as_strided(rows, (n, 2), (3, 1), 1)
    assert described(fresh(mode, (n, 3), None, torch.float32, cpu)) == described(rows)
    assert described(fresh(mode, (n, 3), (1, n), torch.float64, cpu)) == described(columns)
    other = view_of(rows, (n, 2), (3, 1), 1)
    assert described(other) == described(view)
    assert storages(other) == storages(view) == storages(rows)


class Heard(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.calls.append(func)
        return func(*args, **kwargs or {})


def test_torch_makes_the_fakes_of_parameters_before_it_enters_its_own_mode():
    """Hence shim/process/each_call.py has a watch begin there: it hears the model, and not how a fake is made."""
    heard, all_heard = Heard(), Heard()
    with while_the_model_runs(heard):
        torch.export.export(torch.nn.Linear(3, 2), (torch.ones(4, 3),))
    with all_heard:
        torch.export.export(torch.nn.Linear(3, 2), (torch.ones(4, 3),))
    assert [each.calls.count(torch.nn.functional.linear) for each in (heard, all_heard)] == [1, 1]
    makes_a_fake = torch.Tensor.untyped_storage
    assert makes_a_fake in all_heard.calls
    assert makes_a_fake not in heard.calls
