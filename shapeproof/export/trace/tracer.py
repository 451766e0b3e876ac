"""Call torch's exporter to trace a model, and read what it leaves in the program.

Supported: the releases of torch that shim/versions.py names. `tests/export/shim/canaries` records the facts of torch
that are relied on; a new torch release means work in this file and in shape_env.py. The entry point is public: inside
`torch._guards.tracing(context)`, torch.export uses the context's FakeTensorMode, whose ShapeEnv is ours. What is
replaced while a model is traced, in torch and in the model's own files, is put back (`_traced`).
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import weakref
from collections.abc import Callable, Container, Iterator, Mapping
from types import MethodType
from typing import TYPE_CHECKING, Any

import torch
import torch._dynamo.exc
import torch._functorch.config
import torch.utils._pytree as pytree
from torch._dispatch.python import enable_python_dispatcher
from torch._guards import TracingContext
from torch._guards import tracing as torch_tracing
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental import proxy_tensor
from torch.overrides import TorchFunctionMode

from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.meaning.intervals import Bounds
from shapeproof.export.graph.emit import make_serializable, name_squeezed
from shapeproof.export.graph.rounding import jumps
from shapeproof.export.ops.decompositions import ROUNDED, is_alone, reference, takes_symbols
from shapeproof.export.ops.properties import (
    DISABLED,
    FUNCTION,
    GRAD_FN,
    METADATA,
    STRIDES,
    acts_on_layout,
    differentiates,
    properties_read,
    read_in_bodies,
    tells_aliases,
    tensor_of,
)
from shapeproof.export.ops.shapes.layouts import lies_in_order
from shapeproof.export.ops.table import SLICE
from shapeproof.export.shim.autograd import beneath, has_own_backward
from shapeproof.export.shim.callers import read_by_the_model, walking
from shapeproof.export.shim.inputs.binding import bind, keywords_ranged, map_leaves, spec_is_read
from shapeproof.export.shim.modules import writes_unnoted
from shapeproof.export.shim.numbers.protocols import Answers, answered, compared_at_once
from shapeproof.export.shim.numbers.symbols import value_range
from shapeproof.export.shim.process.as_eager import CONTIGUOUS, attention_as_in_eager, contiguous_by_its_operator
from shapeproof.export.shim.process.each_call import (
    formats_by_terms,
    record_unrun,
    record_whole,
    unrecorded,
    while_the_model_runs,
)
from shapeproof.export.shim.process.idle_work import code_deferred, code_generated, quiet
from shapeproof.export.shim.process.modes import generators_restored, unwatched
from shapeproof.export.shim.process.noted_lines import note_lines
from shapeproof.export.shim.process.transforms import transforms_ended
from shapeproof.export.shim.storages import fresh, is_wrapped, storages, view_of
from shapeproof.export.shim.trees import leaves
from shapeproof.export.source.frames import entry, place
from shapeproof.export.source.missing import Refusals, attribute, unlike
from shapeproof.export.source.raised import only_in_the_first, raised_by_the_user
from shapeproof.export.source.texts import hash_looked_up, number_in_text, number_used
from shapeproof.export.trace.calls.fakes import as_asked, as_data, drops_nothing, refuse_hidden, view_of_copy, with_rows
from shapeproof.export.trace.calls.operators import Operators
from shapeproof.export.trace.calls.stated import Stated
from shapeproof.export.trace.checks.failures import failures_kept, hold_failures, is_of_tracing
from shapeproof.export.trace.known.exact_numbers import assert_rests, held_in
from shapeproof.export.trace.known.known_sizes import note_branches
from shapeproof.export.trace.python.builtins import fresh_copy, kept_symbolic
from shapeproof.export.trace.python.plain_numbers import bounded_by_numbers, rows_of
from shapeproof.export.trace.rebinding import Watched
from shapeproof.export.trace.shape_env import ProofShapeEnv

if TYPE_CHECKING:
    from shapeproof.export.declare.inputs import Inputs
    from shapeproof.export.trace.trial import Trial

_export = torch.export.export
"""Torch's own, also while a library has ours in its place."""


def recording_mode(
    trial: Trial,
    sizes: Mapping[str, tuple[Any, ...]],
    *,
    on_data: bool = False,
    repeating: bool = True,
) -> tuple[FakeTensorMode, ProofShapeEnv]:
    """Make a FakeTensorMode whose ShapeEnv asks the trial, and knows which operator is being run.

    The mode is torch's own class: higher-order operators look up their rules by class. `on_data`: the mode also runs
    each operator on the data of its inputs, and passes the resulting values to the ShapeEnv. `repeating`: results may
    be returned without a run.
    """
    env = ProofShapeEnv(trial, sizes)
    with torch._functorch.config.patch(fake_tensor_propagate_real_tensors=on_data):
        mode = FakeTensorMode(shape_env=env, allow_non_fake_inputs=True, export=True)
    env.mode, stated = weakref.ref(mode), Stated(env)
    operators = env.operators = Operators(
        env, lambda *laid: fresh(env.mode(), *laid), stated, by_rule=not on_data, repeating=repeating
    )

    def dispatch(func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.prim.device.default:
            return FakeTensorMode.dispatch(mode, func, types, args, kwargs)  # it computes nothing
        if operators.repeats.are_making and func is torch.ops.aten.as_strided.default:
            return view_of(*args)
        viewing = view_of_copy(func)
        if viewing is not None:
            view = dispatch(viewing, types, args, kwargs)
            return dispatch(torch.ops.aten.clone.default, types, (view,), {"memory_format": torch.contiguous_format})
        outer = env.innermost  # None while torch makes the inputs, and nothing is recorded

        def run(func: Any, args: Any, kwargs: Any) -> Any:
            result = FakeTensorMode.dispatch(mode, func, types, args, kwargs)
            result = as_data(env, func, as_asked(env, func, args, kwargs or {}, result))
            return result if outer is None else with_rows(env, func, args, result, nested=outer != str(func))

        result = operators.run(func, args, kwargs or {}, run)
        env.called(func, args, kwargs or {}, result)
        stated.called(func, args, kwargs or {}, result)
        return result

    mode.dispatch = dispatch  # type: ignore[method-assign]
    mode.cache_enabled = False  # each run must ask again; a cache entry with symbols costs more than it saves
    return mode, env


@entry
def trace(  # noqa: PLR0913 - what torch.export takes, and how it is answered
    mod: torch.nn.Module,
    inputs: Inputs,
    trial: Trial,
    *,
    on_data: bool = False,
    in_place: bool = True,
    whole: bool = False,
    at_once: bool = False,
    holding: bool = True,
    remainders: bool = True,
    loops: Container[Any] = (),
    branches: Container[Any] = (),
    parts: bool = False,
    below: bool = False,
    **signatures: Any,
) -> torch.export.ExportedProgram:
    """Trace a fresh copy of the model at the trial's point; torch's questions about sizes go to the trial.

    `on_data`: trace with the example's own inputs, and give the trial their data where torch can follow the data.
    Exceptions of the model or torch are passed on. `in_place` False: operators settle no decisions and are all run.
    `whole`: keep torch's functions that ours equal up to rounding. `at_once`: decide each comparison where it is made.
    `holding`: take numbers from buffers. `remainders`: pad by them. `loops`, `branches`: what is written over.
    """
    trial.in_place, trial.parts = trial.in_place and in_place, _parting() if parts else None
    (args, kwargs), copied = inputs.at(trial.point, filled=on_data), dict[int, torch.Tensor]()
    mode, env = recording_mode(trial, inputs.sizes, on_data=on_data, repeating=trial.in_place)
    model = fresh_copy(mod, copied)
    _hook(model, env, holding=holding, below=below)
    watched, watch = Watched(model), _Watch(env, aliasing=not trial.in_place, whole=whole, remainders=remainders)
    traced = _traced(env, model, at_once=at_once, loops=loops, branches=branches)
    with _nothing_swallowed(mod, inputs, trial), traced, torch_tracing(TracingContext(mode)):
        with while_the_model_runs(watch):
            program = _export(model, args, kwargs, dynamic_shapes=_hints(mod, inputs), **signatures)
        with watch, mode, enable_python_dispatcher():
            note_branches(program, env)
            hold_failures(program)
    proxy_tensor._FAKE_TENSOR_ID_TO_PROXY_MAP_FOR_EXPORT.clear()  # torch keeps the last graph, for a check of its own
    _note_ranges(program, inputs, env)
    env.left = watched.left(functools.partial(_hold_the_same, env))
    _refuse_computed(program, env, mode)
    _show_loops(program, env, rolled=bool(loops))
    _complete(program, copied)
    _note_for_another(program, env)
    return program


def _parting() -> Callable[[torch.Tensor], Any]:
    from shapeproof.export.trace.python.rolled import parted

    return parted


def _note_for_another(program: torch.export.ExportedProgram, env: ProofShapeEnv) -> None:
    """Note why the model has to be traced in another way."""
    env.trial.overwrites = not assert_rests(program, env.rests)
    env.trial.shows_rounding = jumps(program.graph, env.rounded)
    env.rounded.clear()


def _share_constants(program: torch.export.ExportedProgram, copied: Mapping[int, torch.Tensor]) -> None:
    """Have a program use the tensors that the model holds in attributes and containers, as torch's does.

    What the program writes into a tensor of one element, torch has written into its copy while it traced.
    """
    for name, value in program.constants.items():
        program.constants[name] = copied.get(id(value), value)


def _show_loops(program: torch.export.ExportedProgram, env: ProofShapeEnv, *, rolled: bool) -> None:
    """Refuse a program in which it shows that a loop had no step; have it keep to the inputs' layout if a loop does."""
    if rolled:  # few models have a loop over a size
        from shapeproof.export.trace.python.one_body import refuse_told_apart, takes_a_layout

        pairs, env.perhaps_the_same = env.perhaps_the_same, []
        if pairs:
            refuse_told_apart(program.graph, pairs)
        env.trial.layouts.reads |= {STRIDES} if takes_a_layout(program) else set()


def _complete(program: torch.export.ExportedProgram, copied: Mapping[int, torch.Tensor]) -> None:
    """Complete a program: the model's tensors, code, operators that a file can hold, dims that it squeezes by name."""
    _share_constants(program, copied)
    code_generated(program.graph_module)
    make_serializable(program)
    name_squeezed(program)


def _hook(model: torch.nn.Module, env: ProofShapeEnv, *, holding: bool, below: bool) -> None:
    """Have checks written after the model's last operator, gradients of results noted, buffers' integers known.

    `below`: have its operators recorded below autograd: those of the gradients and torch.func's transforms within, too.
    """
    if holding:
        _hold_numbers(model, env)
    if below:
        model.forward = beneath(model.forward)
        env.trial.layouts.reads.add(GRAD_FN)
    model.register_forward_hook(lambda *_: env.write_checks())
    model.register_forward_hook(lambda _, __, result: _note_backward(env.trial, result))


def _hold_numbers(model: torch.nn.Module, env: ProofShapeEnv) -> None:
    """Have the integers that buffers hold known while the model runs; torch puts fakes in their places."""
    env.held = held_in(model)

    def note(module: torch.nn.Module, _: Any) -> None:
        for name, buffer in module.named_buffers():
            if name in env.held and isinstance(buffer, FakeTensor):
                env.exact.hold(name, buffer, env.held[name])

    if env.held:
        model.register_forward_pre_hook(note)


def _note_backward(trial: Trial, result: Any) -> None:
    """Note what of the model's gradients the graph has not."""
    with unwatched():
        if not torch.is_grad_enabled():
            trial.layouts.reads.add(DISABLED)
        elif has_own_backward(pytree.tree_leaves(result)):
            trial.layouts.reads.add(FUNCTION)


def _hold_the_same(env: ProofShapeEnv, one: torch.Tensor, other: torch.Tensor) -> bool:
    """True if two tensors have the same shape and equal elements in every run."""

    def of(tensor: torch.Tensor) -> tuple[Any, ...]:
        return (tensor.dtype, tensor.layout, tensor.requires_grad, *map(env.read, tensor.shape))

    def lies(tensor: torch.Tensor) -> tuple[Any, ...]:
        steps = (*tensor.stride(), tensor.storage_offset()) if tensor.layout == torch.strided else ()
        return (storages(tensor), *map(env.read, steps))

    if of(one) != of(other):
        return False
    return (bool(storages(one)) and lies(one) == lies(other)) or env.numbering.of(one) == env.numbering.of(other)


def _refuse_computed(program: torch.export.ExportedProgram, env: ProofShapeEnv, mode: FakeTensorMode) -> None:
    """Refuse a program in which torch takes a tensor that the trace computed, in its mode, for a constant."""
    for value in program.constants.values():
        if (isinstance(value, FakeTensor) and value.fake_mode is mode) or is_wrapped(value):
            env.trial.differentiates = True
            raise UsageError("torch.export cannot follow how the model makes a tensor, and takes it for a constant")


def _note_ranges(program: torch.export.ExportedProgram, inputs: Inputs, env: ProofShapeEnv) -> None:
    """Write the ranges of the int inputs into the program.

    Torch notes that each is at least 0, and a loaded program takes no other.
    """
    for leaf in inputs.leaves:
        noted = env.source_to_var.get(leaf.source)
        if noted is not None and not leaf.is_tensor:
            program.range_constraints[noted] = value_range(Bounds(env.trial.known.ranges).of(leaf.terms[0]))


@contextlib.contextmanager
def _traced(
    env: ProofShapeEnv, model: torch.nn.Module, *, at_once: bool, loops: Container[Any], branches: Container[Any]
) -> Iterator[None]:
    """Set up the process for a trace, and restore it afterwards."""
    refusals, asks = Refusals(), (hash_looked_up, number_in_text, number_used, attribute, unlike)
    with (
        _nothing_caught(env),
        env.operators.switches.watched(),
        quiet(),
        formats_by_terms(functools.partial(lies_in_order, read=env.read)),
        transforms_ended(),
        keywords_ranged(),
        spec_is_read(model),
        attention_as_in_eager(),
        contiguous_by_its_operator(),
        kept_symbolic(model, loops, branches) as names,
        writes_unnoted(model),
        answered(env, Answers(*(refusals.keeping(ask) for ask in asks))),
        compared_at_once() if at_once else contextlib.nullcontext(),
        code_deferred(),
        failures_kept(),
    ):
        env.trial.layouts.reads |= read_in_bodies(names)
        env.trial.layouts.tells_aliases = tells_aliases(names)
        env.trial.differentiates = differentiates(names)
        try:
            yield
        finally:
            env.end_trace()
            refusals.say()


@contextlib.contextmanager
def _nothing_caught(env: ProofShapeEnv) -> Iterator[None]:
    """Refuse a model that would catch a failure on data; at the end, since its handler might catch the refusal, too."""
    try:
        yield
    finally:
        if env.handlers.caught is not None:
            raise UsageError(env.handlers.caught.sentence)


@contextlib.contextmanager
def _nothing_swallowed(mod: torch.nn.Module, inputs: Inputs, trial: Trial) -> Iterator[None]:
    """Refuse a model that caught an error, while traced at a trial's point, which eager does not raise there.

    An error that both raise is the model's own business: a name or a key that is missing.

    Raises:
        UsageError: the model caught such an error; an error that leaves the model is raised first.
    """
    with raised_by_the_user() as traced:
        yield
    if not traced:
        return
    args, kwargs = inputs.at(trial.point, filled=True)
    model = fresh_copy(mod)
    apart = (contextlib.suppress(Exception), quiet(), transforms_ended(), generators_restored(), kept_symbolic(model))
    with raised_by_the_user() as eager, contextlib.ExitStack() as stack:
        for each in apart:
            stack.enter_context(each)
        model(*args, **kwargs)
    sentence = only_in_the_first(traced, eager)
    if sentence is not None:
        raise UsageError(sentence)


class _Watch(TorchFunctionMode):
    """Observes every call into torch: recorded operators, questions about layouts, and symbolic sizes.

    Some functions have operators that take a plain int; where a size is symbolic, other operators replace them
    (decompositions.py). The method `contiguous` calls its operator (as_eager.py).
    `aliasing`: dropout that drops nothing returns its operand (fakes.py). `whole`: functions that are replaced up to
    rounding are kept. `remainders`: paddings and crops are by them (padding.py).
    """

    _subscripts = frozenset({torch.Tensor.__getitem__, torch.Tensor.__setitem__})
    _parting = frozenset({torch.Tensor.unbind, torch.unbind})
    _resizing = frozenset({torch.nn.functional.pad, torch.constant_pad_nd, SLICE.overloadpacket})

    def __init__(self, env: ProofShapeEnv, *, aliasing: bool, whole: bool, remainders: bool) -> None:
        super().__init__()
        self._env = env
        self._aliasing = aliasing
        self._whole = whole
        self._remainders = remainders

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in METADATA:
            return func(*args, **kwargs)
        if torch.compiler.is_dynamo_compiling():  # dynamo traces the branches of torch.cond, this mode included
            return func(*args, **kwargs)
        self._watch_recording(proxy_tensor.get_proxy_mode())
        refuse_hidden(func)
        if acts_on_layout(func, args, kwargs) and self._env.innermost is None and read_by_the_model():
            self._env.trial.layout_read(map(self._env.read, tensor_of(args, kwargs).shape))
        read = properties_read(func)
        if read and self._env.innermost is None and read_by_the_model():
            self._env.trial.layouts.reads |= read
            self._env.trial.layouts.doubtful |= GRAD_FN in read  # an operator that was not run has another grad_fn
        if func in self._subscripts:
            args = (args[0], bounded_by_numbers(args[1]), *args[2:])
            row = self._env.row and self._env.row(*args[:2])
            if row is not None:
                return row
        if self._remainders and func in self._resizing:
            from shapeproof.export.trace.calls.padding import right_beyond  # few models pad or crop

            args, kwargs = right_beyond(func, args, kwargs, self._env)
        if func in self._parting and (args[1:] or (kwargs.get("dim", 0),)) == (0,):
            if not walking():
                return rows_of(args[0]) or func(*args, **kwargs)
            self._env.note_walk(args[0])
        if func is CONTIGUOUS:
            func = torch.ops.aten.contiguous.default
        elif takes_symbols(func, args, kwargs):
            written = reference(func, args, kwargs)
            if written in ROUNDED:
                return self._rounded(func, written, args, kwargs)
            func = written
        try:
            return func(*args, **kwargs)
        except Exception as error:
            if is_of_tracing(error, func):
                self._env.handlers.must_not_catch(
                    frozenset({type(error)}), f"`{func.__name__}`, which torch cannot trace,"
                )
            raise

    def _rounded(self, func: Any, written: Any, args: Any, kwargs: Any) -> Any:
        """Return the result of a function of ours, equal up to rounding; or keep torch's, where rounding may show."""
        if any(map(is_wrapped, leaves(args))):
            raise UsageError(f"the rounding of `{func.__name__}` cannot be followed within torch.vmap or torch.func")
        if (kwargs.get("dtype") or torch.float32).is_floating_point and not self._whole:
            result = written(*args, **kwargs)
            self._env.rounded.update([] if is_alone(func, args, kwargs) else storages(result))
            return result
        with unrecorded():
            result = written(*args, **kwargs)
        self._env.trial.kept.add(func.__name__)
        return record_whole(func, args, kwargs, result)

    def _watch_recording(self, recorder: Any) -> None:
        """Run the operators that torch records through `Operators.record`."""
        if recorder is None or "__torch_dispatch__" in vars(recorder):
            return
        record = recorder.__torch_dispatch__

        def dispatch(_: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if self._aliasing and drops_nothing(func, args, kwargs or {}):
                return args[0]

            def run(func: Any, args: Any, kwargs: Any) -> Any:
                with _unrecorded_if_it_fails(recorder.tracer.graph, func):
                    return record(func, types, args, kwargs)

            def note(result: Any) -> Any:
                return record_unrun(recorder.tracer, (func, args, kwargs or {}), result)

            result = self._env.operators.record(func, args, kwargs or {}, run, note)
            with recorder:  # torch disables the mode while it dispatches
                self._env.write_checks()
            return result

        recorder.__torch_dispatch__ = MethodType(dispatch, recorder)  # torch wants the mode's own method
        note_lines(recorder.tracer, lambda: place(None).user)


@contextlib.contextmanager
def _unrecorded_if_it_fails(graph: torch.fx.Graph, func: Any) -> Iterator[None]:
    """Remove an operator's node if the operator fails and the model continues.

    Torch records an operator before it runs it.
    """
    last = next(iter(reversed(graph.nodes)), None)
    try:
        yield
    except Exception:
        added = itertools.takewhile(lambda node: node is not last, reversed(graph.nodes))
        for node in [node for node in added if node.target is func and not node.users]:
            graph.erase_node(node)
        raise


def _hints(mod: torch.nn.Module, inputs: Inputs) -> Any:
    """Return dynamic_shapes that only says which sizes are symbols; the ShapeEnv knows their terms."""
    auto = torch.export.Dim.AUTO
    entries: dict[str, Any] = {}
    for leaf in inputs.leaves:
        hints = [None if term.is_constant else auto for term in leaf.terms]
        if leaf.is_tensor:
            entries[leaf.source] = dict(enumerate(hints))
        else:
            entries[leaf.source] = hints[0] if hints else None
    if not inputs.sizes:
        return None
    return map_leaves(entries.__getitem__, bind(mod, inputs.args, inputs.kwargs))
