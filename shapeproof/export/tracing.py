"""Every touch of torch's exporter: how a model is traced, how its inputs are named, how declarations are read.

Supported: the torch 2.13 series. What is relied on is written down in `tests/export/test_canaries.py`, so that a new
torch release is this file's and shape_env.py's work. The way in is public: inside `torch._guards.tracing(context)`,
torch.export takes the context's FakeTensorMode, whose ShapeEnv is ours; no global is patched.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import sympy
import torch
import torch._dynamo.exc
import torch._functorch.config
import torch.utils._pytree as pytree
from torch._dispatch.python import enable_python_dispatcher
from torch._guards import TracingContext
from torch._guards import tracing as torch_tracing
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.export.dynamic_shapes import _combine_args, _DerivedDim, _Dim, _DimHint, _DimHintType, _tree_map_with_path
from torch.export.pt2_archive._package import load_pt2, package_pt2
from torch.fx.experimental import proxy_tensor
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.overrides import TorchFunctionMode
from torch.utils._sympy.numbers import int_oo

from shapeproof.constraints.errors import UsageError
from shapeproof.constraints.terms import symbol
from shapeproof.export import nodes
from shapeproof.export.conversions import bounded_by_numbers, fresh_copy, kept_symbolic
from shapeproof.export.layouts import acts_on_layout
from shapeproof.export.operators import Operators, call
from shapeproof.export.places import read_by_the_model
from shapeproof.export.promises import VIEWING
from shapeproof.export.quiet import quiet
from shapeproof.export.references import REWRITTEN, reference
from shapeproof.export.shape_env import ProofShapeEnv
from shapeproof.export.storages import is_wrapped
from shapeproof.export.text import first_line
from shapeproof.export.translate import Translator

if TYPE_CHECKING:
    from shapeproof.constraints.formulas import Formula
    from shapeproof.export.inputs import Inputs, Leaf
    from shapeproof.export.trial import Trial
    from shapeproof.solver.facts import Facts

ASSERTION = torch.ops.aten._assert_scalar.default
"""The operator that an assertion is in a graph."""

TorchConstraintError = torch._dynamo.exc.UserError
CONSTRAINT_VIOLATION = torch._dynamo.exc.UserErrorType.CONSTRAINT_VIOLATION


# ---------------------------------------------------------------------- inputs by name


def name_leaves(mod: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Leaf]:
    """The flat inputs in order, by the name of the parameter they are bound to."""
    from shapeproof.export.inputs import Leaf

    paths = _flatten(bind(mod, args, kwargs))
    return [Leaf(_source(path), f"{path[0].key}{_keys(path[1:])}", value) for path, value in paths]


def match_shapes(mod: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], shapes: Any) -> dict[str, Any]:
    """The entry of dynamic_shapes for each flat input, by source name.

    Raises:
        UsageError: the structure of dynamic_shapes is not that of the inputs.
    """
    entries: dict[str, Any] = {}
    if shapes:
        map_shapes(mod, args, kwargs, shapes, entries.__setitem__)
    return entries


def map_shapes(
    mod: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    shapes: Any,
    change: Callable[[str, Any], Any],
) -> Any:
    """The dynamic_shapes, in the form in which they are given, with each entry as `change(source name, entry)` has it.

    Raises:
        UsageError: the structure of dynamic_shapes is not that of the inputs.
    """
    combined: Any = bind(mod, args, kwargs)
    names = list(combined)
    given = shapes or _tree_map_with_path(lambda _path, _leaf: None, combined)
    if isinstance(given, Mapping):
        if set(given) != set(names):
            message = f"dynamic_shapes names {sorted(map(str, given))}, but the inputs are {names}"
            raise UsageError(message)
    elif isinstance(given, tuple | list):
        if len(given) != len(names):
            message = f"dynamic_shapes has {len(given)} entries for {len(names)} inputs ({', '.join(names)})"
            raise UsageError(message)
        given = dict(zip(names, given, strict=True))
    else:
        message = f"dynamic_shapes must be a dict, a tuple or a list, not {type(given).__name__}"
        raise UsageError(message)
    try:
        mapped = _map_leaves(change, combined, given)
    except (ValueError, AssertionError, TorchConstraintError) as error:
        message = f"dynamic_shapes does not match the inputs: {first_line(error)}"
        raise UsageError(message) from None
    return type(shapes)(mapped.values()) if isinstance(shapes, tuple | list) else mapped


def resolve_shapes(
    mod: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], shapes: Any
) -> tuple[Any, Callable[[Any], None] | None]:
    """dynamic_shapes as a tree, and what AdditionalInputs wants checked of the program."""
    try:
        if isinstance(shapes, torch.export.AdditionalInputs):
            return shapes.dynamic_shapes(mod, args, kwargs), shapes.verify
        if isinstance(shapes, torch.export.ShapesCollection):
            return shapes.dynamic_shapes(mod, args, kwargs), None
    except (ValueError, AssertionError) as error:
        raise UsageError(str(error)) from None
    return shapes, None


def rebuild_inputs(
    args: tuple[Any, ...], kwargs: dict[str, Any], values: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The same structure with other leaves; `values` in the order of the flat inputs of (args, kwargs)."""
    _, spec = pytree.tree_flatten((args, kwargs))
    return pytree.tree_unflatten(list(values.values()), spec)  # type: ignore[no-any-return]


def bind(mod: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The inputs by the names of the model's arguments, in the order of the program's inputs."""
    try:
        bound = dict(_combine_args(mod, args, kwargs))
    except TypeError as error:
        message = f"the example inputs do not fit the model's forward: {error}"
        raise UsageError(message) from None
    # Positional arguments come first in the program, keywords in the order given.
    return {k: v for k, v in bound.items() if k not in kwargs} | {k: bound[k] for k in kwargs if k in bound}


def _flatten(tree: Any) -> list[tuple[Any, Any]]:
    return pytree.tree_flatten_with_path(tree)[0]


def _map_leaves(change: Callable[..., Any], tree: Any, *shapes: Any) -> Any:
    """A tree as dynamic_shapes has it, where a class of the user's stands as the list of what is in it."""
    sources = iter([_source(path) for path, _ in _flatten(tree)])  # torch's own paths begin anew in such a class
    return _tree_map_with_path(
        lambda _path, _leaf, *entry: change(next(sources), *entry), tree, *shapes, tree_name="inputs"
    )


def _source(path: Sequence[Any]) -> str:
    """Torch's source name of a flat input: `L['x'][0]`."""
    return f"L[{path[0].key!r}]{_keys(path[1:])}"


def _keys(path: Sequence[Any]) -> str:
    return "".join(pytree.keystr((key,)) for key in path)


# ---------------------------------------------------------------------- declarations


def is_dim(entry: Any) -> bool:
    """Whether the entry is a named or derived Dim."""
    return isinstance(entry, _Dim)


def is_hint(entry: Any) -> bool:
    """Whether the entry is Dim.AUTO, Dim.DYNAMIC or Dim.STATIC."""
    return isinstance(entry, _DimHint)


def is_static_hint(entry: Any) -> bool:
    """Whether the entry is Dim.STATIC."""
    return isinstance(entry, _DimHint) and entry.type == _DimHintType.STATIC


def must_stay_dynamic(hint: Any) -> bool:
    """Whether the hint forbids that the size becomes a constant (Dim.DYNAMIC)."""
    return bool(hint.type == _DimHintType.DYNAMIC)


def dim_root(dim: Any) -> tuple[Any, Callable[[Any], Any]]:
    """The named Dim that a Dim derives from, and how."""
    if isinstance(dim, _DerivedDim):
        return dim.root, dim.fn
    return dim, lambda x: x


def dim_bounds(dim: Any) -> tuple[int, int | None]:
    """The bounds of a named Dim; None for no upper bound."""
    return int(dim.min), None if dim.max == int_oo else int(dim.max)


def hint_bounds(hint: Any) -> tuple[int | None, int | None]:
    """The written bounds of a Dim hint."""
    return hint.min, hint.max


def unbacked_bounds(tensor: Any, index: int) -> tuple[int | None, int | None] | None:
    """The bounds of a dimension marked with torch._dynamo.decorators.mark_unbacked; None if it is not marked."""
    if index not in getattr(tensor, "_dynamo_unbacked_indices", ()):
        return None
    return getattr(tensor, "_dynamo_unbacked_bounds", {}).get(index, (None, None))  # type: ignore[no-any-return]


# ---------------------------------------------------------------------- tracing


def recording_mode(
    trial: Trial, sizes: Mapping[str, tuple[Any, ...]], *, on_data: bool = False
) -> tuple[FakeTensorMode, ProofShapeEnv]:
    """A FakeTensorMode whose ShapeEnv asks the trial, and knows which operator is being run.

    The mode is torch's own class: higher-order operators look their rules up by it. `on_data`: it runs each operator on
    the data of its inputs, too, and tells the ShapeEnv what they give.
    """
    env = ProofShapeEnv(trial, sizes)
    with torch._functorch.config.patch(fake_tensor_propagate_real_tensors=on_data):
        mode = FakeTensorMode(shape_env=env, allow_non_fake_inputs=True, export=True)
    operators = env.operators = Operators(env, apart=proxy_tensor.disable_proxy_modes_tracing, by_rule=not on_data)

    def dispatch(func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def run(func: Any, args: Any, kwargs: Any) -> Any:
            return FakeTensorMode.dispatch(mode, func, types, args, kwargs)

        result = operators.run(func, args, kwargs or {}, run)
        env.called(func, args, kwargs or {}, result)
        return result

    mode.dispatch = dispatch  # type: ignore[method-assign]
    mode.cache_enabled = False  # a run is to ask again; and an entry with symbols in it costs more than it saves
    return mode, env


def trace(
    mod: torch.nn.Module,
    inputs: Inputs,
    trial: Trial,
    *,
    preserve_module_call_signature: tuple[str, ...] = (),
    on_data: bool = False,
) -> torch.export.ExportedProgram:
    """Trace the model at the trial's point, on a fresh copy; what torch asks about sizes goes to the trial.

    `on_data`: with the example's own inputs, whose data the trial is told of as far as torch can follow them.
    Whatever the model or torch raises is let through.
    """
    args, kwargs = (inputs.args, inputs.kwargs) if on_data else inputs.at(trial.point, filled=False)
    (mode, env), model = recording_mode(trial, inputs.sizes, on_data=on_data), fresh_copy(mod)
    with quiet(), kept_symbolic(model), torch_tracing(TracingContext(mode)), _Watch(env):
        program = torch.export.export(
            model,
            args,
            kwargs,
            dynamic_shapes=_hints(mod, inputs),
            preserve_module_call_signature=preserve_module_call_signature,
        )
    for name, value in program.constants.items():
        if isinstance(value, FakeTensor) or is_wrapped(value):
            message = f"torch.export cannot follow the model: `{name}`, which it computes, is taken for a constant"
            raise UsageError(message)
    return program


class _Watch(TorchFunctionMode):
    """Sees every call into torch: operators that the graph records, questions about layouts, and symbolic sizes.

    Functions whose operator takes a plain int are written in others where a size is symbolic (references.py). The
    method `contiguous` looks at the layout before it calls its operator; the operator itself is called, so that it is
    recorded whatever the layout is.
    """

    _subscripts = frozenset({torch.Tensor.__getitem__, torch.Tensor.__setitem__})

    def __init__(self, env: ProofShapeEnv) -> None:
        super().__init__()
        self._env = env

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch.compiler.is_dynamo_compiling():  # torch.cond has its branches read by dynamo, this mode included
            return func(*args, **kwargs)
        self._watch_recording(proxy_tensor.get_proxy_mode())
        if acts_on_layout(func, args, kwargs) and self._env.innermost is None and read_by_the_model():
            self._env.trial.layout_read()
        if func in self._subscripts:
            args = (args[0], bounded_by_numbers(args[1]), *args[2:])
        contiguous = func is torch.Tensor.contiguous
        if (contiguous or func in REWRITTEN) and any(map(_is_symbolic, pytree.tree_leaves((args, kwargs)))):
            func = torch.ops.aten.contiguous.default if contiguous else reference(func, args, kwargs)
        return func(*args, **kwargs)

    def _watch_recording(self, recorder: Any) -> None:
        """Have the operators that torch records run under our eyes."""
        if recorder is None or "__torch_dispatch__" in vars(recorder):
            return
        record = recorder.__torch_dispatch__

        def dispatch(func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            def run(func: Any, args: Any, kwargs: Any) -> Any:
                return record(func, types, args, kwargs)

            def note(result: Any) -> Any:
                tracer, (flat, spec) = recorder.tracer, pytree.tree_flatten((args, kwargs or {}))
                _, proxies, _ = proxy_tensor._fetch_proxies_and_all_constant_flag(flat, tracer)
                operands = pytree.tree_unflatten(proxies, spec)
                name = tracer.graph._target_to_str(func.overloadpacket.__name__)
                made = tracer.create_proxy("call_function", func, *operands, name=name)
                return proxy_tensor.track_tensor_tree(result, made, constant=None, tracer=tracer)

            return self._env.operators.record(func, args, kwargs or {}, run, note)

        recorder.__torch_dispatch__ = dispatch


def _is_symbolic(value: Any) -> bool:
    return any(isinstance(size, torch.SymInt) for size in getattr(value, "shape", (value,)))


def _hints(mod: torch.nn.Module, inputs: Inputs) -> Any:
    """dynamic_shapes that only says which sizes are symbols; what they are, the ShapeEnv knows."""
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
    return _map_leaves(entries.__getitem__, bind(mod, inputs.args, inputs.kwargs))


# ---------------------------------------------------------------------- reading a traced program


def expression(value: torch.SymInt | torch.SymFloat | torch.SymBool) -> Any:
    """The sympy expression of a symbolic number."""
    return value.node.expr


def size_expression(size: int | torch.SymInt) -> Any:
    """The sympy expression of a size."""
    return size.node.expr if isinstance(size, torch.SymInt) else sympy.Integer(size)


def about_data(size: int | torch.SymInt) -> bool:
    """Whether a size is taken from data."""
    return isinstance(size, torch.SymInt) and bool(free_unbacked_symbols(size))


def shape_env_of(program: torch.export.ExportedProgram) -> ProofShapeEnv:
    """The ShapeEnv that a program was traced with."""
    for value in values(program):
        if isinstance(value, FakeTensor) and isinstance(value.fake_mode.shape_env, ProofShapeEnv):
            return value.fake_mode.shape_env
        if isinstance(value, torch.SymInt) and isinstance(value.node.shape_env, ProofShapeEnv):
            return value.node.shape_env
    message = "the program was not traced here"
    raise LookupError(message)


def close(
    program: torch.export.ExportedProgram,
    enforced: Iterable[Formula],
    names: Mapping[str, str],
    taken_apart: Callable[[], Facts],
) -> None:
    """The trace is over. Compilers ask on: they serve every input that the program takes, not the trace's region."""
    with contextlib.suppress(LookupError):  # there is nothing to ask
        env = shape_env_of(program)
        env.trial = env.trial.over(enforced, names, taken_apart)


def as_compiled(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """What AOTInductor takes a program apart into before it compiles it."""
    from torch._inductor.decomposition import select_decomp_table

    table = torch.export.default_decompositions().materialize() | select_decomp_table()
    return torch.export.ExportedProgram.run_decompositions(program, table)  # type: ignore[no-any-return]


def run_again(program: torch.export.ExportedProgram, there: torch.export.ExportedProgram) -> dict[torch.fx.Node, Any]:
    """The value of each node of a program on the fake inputs that another was traced with, under the other's ShapeEnv.

    What an operator takes from data is taken from the other program's operator, in order: whoever compares the two
    finds out whether these are the same operators on the same operands. Assertions are left to be compared too.
    """
    inputs = iter([node.meta.get("val") for node in there.graph.nodes if node.op == "placeholder"])
    data = iter([node for node in there.graph.nodes if _takes_from_data(node)])
    mode = _fake_mode_of(there)
    env = mode.shape_env if mode is not None and isinstance(mode.shape_env, ProofShapeEnv) else None
    values: dict[torch.fx.Node, Any] = {}
    noted: dict[torch.fx.Node, Any] = {}
    called: dict[Any, torch.SymInt] = {}
    as_it_is = _as_it_is if nodes.mutates(program.graph) else lambda value: value
    with quiet(), mode or contextlib.nullcontext(), enable_python_dispatcher():
        for node in program.graph.nodes:
            if node.op == "placeholder":
                values[node] = next(inputs)
            elif node.op == "get_attr":
                values[node] = getattr(program.graph_module, str(node.target))
            elif _takes_from_data(node):
                values[node] = _taken_from_data(node, next(data, None))
            elif node.op == "call_function" and node.target is not ASSERTION:
                args, kwargs = torch.fx.map_arg((node.args, node.kwargs), values.__getitem__)
                with env.expecting(_recounted(node.meta.get("val"), called)) if env else contextlib.nullcontext():
                    run = env.operators.record if env else call
                    values[node] = run(node.target, args, kwargs)
            if node.meta.get("unbacked_bindings"):
                called |= _called(node.meta.get("val"), values[node])
            noted[node] = as_it_is(values.get(node))
    return noted


def _takes_from_data(node: torch.fx.Node) -> bool:
    """Whether a size comes from data at this node. The symbols of a view that has some follow from its arguments."""
    return bool(node.meta.get("unbacked_bindings")) and str(node.target) not in VIEWING


def _called(noted: Any, value: Any) -> dict[Any, torch.SymInt]:
    """What a program calls the sizes that it takes from data, and what they are called there."""
    pairs = zip(sizes(noted), sizes(value), strict=False)
    return {a.node.expr: b for a, b in pairs if isinstance(a, torch.SymInt) and isinstance(b, torch.SymInt)}


def _recounted(noted: Any, called: Mapping[Any, torch.SymInt]) -> list[Any]:
    """Sizes that a program did not count anew where it was traced: torch remembers what `nonzero` of a tensor was."""
    return [
        called[a.node.expr].node.expr for a in sizes(noted) if isinstance(a, torch.SymInt) and a.node.expr in called
    ]


def _as_it_is(value: Any) -> Any:
    """The value as it is now: an operator such as `squeeze_` changes the shape of a tensor later."""
    return pytree.tree_map_only(FakeTensor, lambda tensor: tensor.detach(), value)


def _taken_from_data(node: torch.fx.Node, other: torch.fx.Node | None) -> Any:
    if other is None or other.target != node.target:
        message = f"`{node.target}` takes a size from data, and nothing like it does there"
        raise LookupError(message)
    return other.meta.get("val")


def _fake_mode_of(program: torch.export.ExportedProgram) -> FakeTensorMode | None:
    return next((value.fake_mode for value in values(program) if isinstance(value, FakeTensor)), None)


def values(program: torch.export.ExportedProgram) -> Iterator[Any]:
    """What was noted of the nodes of a program, and then of those of its bodies."""
    modules = (module for module in program.graph_module.modules() if isinstance(module, torch.fx.GraphModule))
    return (
        leaf for module in modules for node in module.graph.nodes for leaf in pytree.tree_leaves(node.meta.get("val"))
    )


def sizes(value: Any) -> list[Any]:
    """Every size of a fake value's tensors, and every number in it, in order."""
    found: list[Any] = []
    for leaf in pytree.tree_leaves(value):
        found += list(leaf.shape) if isinstance(leaf, torch.Tensor) else [leaf]
    return found


def save_archive(path: str, programs: Mapping[str, torch.export.ExportedProgram], texts: Mapping[str, str]) -> None:
    """Write programs and texts by name as one PT2 archive."""
    package_pt2(path, exported_programs=dict(programs), extra_files=dict(texts))


def load_archive(path: str) -> tuple[dict[str, torch.export.ExportedProgram], dict[str, str]]:
    """The programs and the texts of a PT2 archive, by name."""
    return (found := load_pt2(path)).exported_programs, found.extra_files


def unflattened(results: Sequence[Any], program: torch.export.ExportedProgram) -> Any:
    """The flat results of a program in the structure that it returns."""
    return pytree.tree_unflatten(list(results), program.call_spec.out_spec)


def translator_of(program: torch.export.ExportedProgram) -> Translator:
    """How to read the sizes in a program; any reader will do for one that has none."""
    try:
        return shape_env_of(program).translator
    except LookupError:
        return Translator(lambda free: symbol(free.name))
