"""What settling decisions in place relies on in torch, one small test for each fact. Nothing of ours runs here."""

from __future__ import annotations

import itertools
import sys
import traceback
import zipfile

import pytest
import torch
import torch.utils._pytree as pytree
from torch._export.serde.serialize import SerializedArtifact, deserialize, serialize
from torch._guards import TracingContext, tracing
from torch._subclasses import meta_utils
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.export import Dim
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing, get_proxy_mode, make_fx, track_tensor_tree
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.fx.passes.shape_prop import _extract_tensor_metadata
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack


class Watch(TorchFunctionMode):
    """Puts a dispatch of its own on the mode that records, as tracing._Watch does."""

    def __init__(self):
        super().__init__()
        self.recorded = []
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(func)
        recorder = get_proxy_mode()
        if recorder is not None and "__torch_dispatch__" not in vars(recorder):
            record = recorder.__torch_dispatch__

            def dispatch(func, types, args=(), kwargs=None):
                self.recorded.append(func)
                return record(func, types, args, kwargs)

            recorder.__torch_dispatch__ = dispatch
        return func(*args, **(kwargs or {}))


def test_the_mode_that_records_is_asked_for_its_dispatch_as_an_attribute():
    """tracing._Watch relies on it: a dispatch on the instance sees every operator that export records."""
    with Watch() as watch:
        torch.export.export(torch.nn.Linear(2, 3), (torch.randn(4, 2),))
    assert torch.ops.aten.linear.default in watch.recorded


def test_a_function_mode_sees_the_questions_about_layouts():
    """tracing._Watch relies on it: `stride` and `is_contiguous` of a tensor go through it."""
    tensor = torch.randn(2, 3)
    with Watch() as watch:
        tensor.stride()
        tensor.is_contiguous()
    assert watch.seen == [torch.Tensor.stride, torch.Tensor.is_contiguous]


def test_nothing_is_recorded_while_recording_is_disabled():
    """tracing._apart relies on it."""

    def run(x):
        with disable_proxy_modes_tracing():
            x * 2
        return x + 1

    graph = make_fx(run, tracing_mode="symbolic", pre_dispatch=True)(torch.randn(3)).graph
    assert [str(node.target) for node in graph.nodes if node.op == "call_function"] == ["aten.add.Tensor"]


@pytest.mark.parametrize("enabled", [True, False])
def test_results_of_fake_tensors_are_remembered_unless_that_is_disabled(enabled):
    """tracer.recording_mode relies on it: a second run is to ask again, and not to be given what the first gave."""
    mode = FakeTensorMode(shape_env=ShapeEnv())
    assert mode.cache_enabled
    mode.cache_enabled = enabled
    before = FakeTensorMode.cache_info()
    x = mode.from_tensor(torch.randn(3, 4))
    with mode:
        assert (x + 1).shape == (x + 1).shape
    after = FakeTensorMode.cache_info()
    assert (after.hits + after.misses > before.hits + before.misses) is enabled


def test_the_notes_of_torch_are_made_where_places_looks_for_them():
    """callers.noting relies on the function's code, which asks, and on the file."""
    asked = []

    class Env(ShapeEnv):
        def evaluate_expr(self, *args, **kwargs):
            near = itertools.islice(traceback.walk_stack(sys._getframe(1)), 15)
            asked.append(any(frame.f_code is _extract_tensor_metadata.__code__ for frame, _ in near))
            return super().evaluate_expr(*args, **kwargs)

    with tracing(TracingContext(FakeTensorMode(shape_env=Env(tracked_fakes=[]), export=True))):
        torch.export.export(torch.nn.ReLU(), (torch.ones(3, 5).t(),), dynamic_shapes=({0: Dim.AUTO, 1: Dim.AUTO},))
    assert any(asked)
    assert meta_utils.__file__.endswith("torch/_subclasses/meta_utils.py")


def test_a_file_of_torch_save_knows_a_tensor_again_and_takes_more_parts(tmp_path):
    """archives.save_archive relies on it."""
    whole, weight = torch.zeros(4), torch.nn.Parameter(torch.ones(2))
    with (tmp_path / "two.pt2").open("w+b") as file:
        torch.save({"a": [whole, whole[:2], weight], "b": [whole, weight]}, file)
        with zipfile.ZipFile(file, "a") as archive:
            assert {name.partition("/")[0] for name in archive.namelist()} == {"archive"}
            archive.writestr("archive/extra/text", "text")
    found = torch.load(tmp_path / "two.pt2", weights_only=True)
    assert found["a"][0] is found["b"][0]
    assert found["a"][2] is found["b"][1]
    assert isinstance(found["b"][1], torch.nn.Parameter)
    found["a"][1].add_(1)
    assert found["b"][0].tolist() == [1, 1, 0, 0]


def test_a_program_is_written_without_its_tensors_and_read_with_those_given():
    """shim/archives.py relies on it."""
    program = torch.export.export(torch.nn.Linear(2, 3), (torch.randn(1, 2),))
    bare = serialize(program, serialize_state_dict=False, serialize_constants=False, serialize_example_inputs=False)
    assert (bare.state_dict, bare.constants, bare.example_inputs) == (b"", b"", b"")
    state, constants = dict(program.state_dict), {}
    found = deserialize(SerializedArtifact(bare.exported_program, state, constants, b""))
    assert found.state_dict["weight"] is program.state_dict["weight"]
    assert found.module().weight is program.state_dict["weight"]
    assert found.example_inputs is None


def test_a_cond_on_sizes_keeps_its_predicate():
    """merge._cond relies on it: the operator itself takes a SymBool, records both branches and asks nothing."""
    asked = []

    class Env(ShapeEnv):
        def evaluate_expr(self, *args, **kwargs):
            asked.append(args)
            return super().evaluate_expr(*args, **kwargs)

    def forward(x):
        seen = len(asked)
        (y,) = torch.ops.higher_order.cond(x.shape[0] > 4, lambda x: (x.sin(),), lambda x: (x.cos(),), (x,))
        assert all("> 4" not in str(args[0]) for args in asked[seen:])
        return y

    graph = make_fx(forward, tracing_mode="symbolic")(torch.ones(3)).graph
    (node,) = (node for node in graph.nodes if node.target is torch.ops.higher_order.cond)
    assert isinstance(node.args[0], torch.fx.Node)


def test_an_operator_whose_result_is_known_can_be_recorded_without_being_run():
    """tracing._Watch relies on it: for an operator that has a rule."""
    operator = torch.ops.aten.sin.default

    class Note(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            recorder = get_proxy_mode()
            if func is not torch.sin or recorder is None:
                return func(*args, **(kwargs or {}))
            with disable_proxy_modes_tracing():
                result = args[0].new_empty((7,))
            operands = pytree.tree_map(recorder.tracer.unwrap_proxy, (args, {}))
            made = recorder.tracer.create_proxy("call_function", operator, *operands, name="known")
            return track_tensor_tree(result, made, constant=None, tracer=recorder.tracer)

    class Sine(torch.nn.Module):
        def forward(self, x):
            return torch.sin(x) + 1

    with Note():
        program = torch.export.export(Sine(), (torch.randn(3),))
    known = next(node for node in program.graph.nodes if node.name == "known")
    assert (known.target, known.meta["val"].shape, len(known.users)) == (operator, (7,), 1)
    assert "torch.sin(x) + 1" in known.meta["stack_trace"]


def test_a_level_of_forward_differentiation_is_counted():
    """shape_env.is_bare relies on it: where there is none, no tensor has a tangent."""
    assert forward_ad._current_level == -1
    with forward_ad.dual_level():
        assert forward_ad._current_level == 0


def test_a_result_of_an_autograd_function_may_be_changed_in_place():
    """repeats._Differentiable relies on it: it is no leaf, as what an operator gives is none."""

    class Fresh(torch.autograd.Function):
        @staticmethod
        def forward(_ctx, _operand):
            return torch.ones(2)

    result = Fresh.apply(torch.ones(3, requires_grad=True))
    assert result.requires_grad
    assert not result.is_leaf
    result.add_(1)


def test_functions_of_torch_that_begin_with_check_or_assert_only_raise_with_a_text():
    """A text that is passed to one of them does not affect a model's result (source/texts.py)."""
    names = {name for name in vars(torch) if name.startswith(("_assert", "_check"))}
    kinds = {
        "",
        "_index",
        "_is_size",
        "_not_implemented",
        "_tensor_all",
        "_tensor_all_with",
        "_type",
        "_value",
        "_with",
    }
    operators = {"_assert_async", "_assert_scalar", "_assert_tensor_metadata"}
    assert names == {"_assert", *operators, *(f"_check{kind}" for kind in kinds)}
    with pytest.raises(AssertionError, match="said"):
        torch._assert(False, "said")


def test_a_dispatch_mode_of_a_users_own_is_on_the_stack():
    class Own(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    with FakeTensorMode() as fake, Own() as own:
        assert _get_current_dispatch_mode_stack() == [fake, own]


def test_a_state_of_random_numbers_that_is_set_back_has_its_seed():
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(3)
        state = torch.get_rng_state()
        torch.manual_seed(4)
        torch.set_rng_state(state)
        assert torch.default_generator.initial_seed() == 3
