"""Binds example inputs and `dynamic_shapes` to the parameters of a model, by torch's own source names.

Binding reads no sizes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import re
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch._dynamo.exc
import torch._functorch.config
import torch.export._trace
import torch.utils._pytree as pytree
from torch.export import dynamic_shapes as torchs_shapes
from torch.export.dynamic_shapes import _combine_args, _tree_map_with_path
from torch.fx.experimental.dynamic_spec import ParamsSpec, ShapesSpec

from shapeproof.constraints.errors import UsageError
from shapeproof.export.shim.inputs import dims
from shapeproof.export.shim.numbers.symbols import TorchConstraintError
from shapeproof.export.shim.replaced import replaced
from shapeproof.export.shim.trees import keyed_children
from shapeproof.wording import first_line


def _named_directly(shapes: Any, mod: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return dynamic_shapes with what it says of arguments in `**kwargs` under the name of that parameter."""
    bound = bind(mod, args, kwargs)
    inside = set(kwargs).difference(bound)
    if not isinstance(shapes, Mapping) or not inside.intersection(shapes):
        return shapes
    (parameter,) = (name for name, each in _parameters(mod).items() if each.kind is inspect.Parameter.VAR_KEYWORD)
    return {name: entry for name, entry in shapes.items() if name not in inside} | {
        parameter: shapes.get(parameter, {}) | {name: shapes[name] for name in inside.intersection(shapes)}
    }


_normalized: Callable[..., Any] = getattr(torchs_shapes, "_normalize_dynamic_shapes", _named_directly)
"""dynamic_shapes may name an argument of `**kwargs` directly; torch itself takes that from 2.14 on."""
_CLASS = re.compile(r"<(?:class|function) '?([\w.]+)'?(?: at 0x\w+)?>")
"""How torch prints the class of a container; that of a named tuple is a function."""


def name_leaves(mod: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, str, Any]]:
    """Return the flat inputs in order: torch's source name, the name by the model's parameters, the value."""
    return named_leaves(bind(mod, args, kwargs))


def named_leaves(bound: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
    """Return the same of inputs that `bind` has named."""
    paths = _flatten(bound)
    return [(_source(path), f"{path[0].key}{_keys(path[1:])}", value) for path, value in paths]


def flat_inputs(signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return the flat inputs of a call in any order, with the source names that `name_leaves` gives them."""
    paths = _flatten(dict(signature.bind(*args, **kwargs).arguments))
    return [(_source(path), value) for path, value in paths]


def map_shapes(
    mod: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    shapes: Any,
    change: Callable[[str, Any], Any],
) -> Any:
    """Return dynamic_shapes in the given form, with each entry replaced by `change(source name, entry)`.

    Raises:
        UsageError: the structure of dynamic_shapes is not that of the inputs.
    """
    combined: Any = bind(mod, args, kwargs)
    names = list(_combine_args(mod, args, kwargs))  # torch reads a tuple or a list in the order of the signature
    given = _under_their_parameter(mod, args, kwargs, shapes)
    given = given or _static(combined)
    if isinstance(given, Mapping):
        more = {name for name, each in _parameters(mod).items() if each.kind is inspect.Parameter.VAR_KEYWORD}
        _check_names(given, names, kwargs.keys() | more)
    elif isinstance(given, tuple | list):
        if len(given) != len(names):
            raise UsageError(f"dynamic_shapes has {len(given)} entries for {len(names)} inputs ({', '.join(names)})")
        given = dict(zip(names, given, strict=True))
    else:
        raise UsageError(f"dynamic_shapes must be a dict, a tuple or a list, not {type(given).__name__}")
    given = {name: _static(combined[name]) for name in names if name not in given} | dict(given)
    given = {name: _of_contents(combined[name], given[name]) for name in names}
    try:
        mapped = map_leaves(change, combined, given)
    except (ValueError, AssertionError, TorchConstraintError) as error:
        misfits = (each for name in names for each in _of_objects(name, combined[name], given[name]))
        said = next(misfits, None) or _CLASS.sub(r"\1", first_line(error).rpartition("`dynamic_shapes`: ")[2])
        raise UsageError(f"dynamic_shapes does not match the inputs: {said}") from None
    return type(shapes)(mapped[name] for name in names) if isinstance(shapes, tuple | list) else mapped


def _static(value: Any) -> Any:
    """Return an entry of nested values that declares nothing dynamic."""
    return _tree_map_with_path(lambda _path, _leaf: None, value)


def _of_contents(value: Any, entry: Any) -> Any:
    """Return an entry without the None of each field that is None: torch flattens a dataclass without such fields."""
    parts = keyed_children(value)
    if parts is None or type(entry) not in {list, tuple, dict}:
        return entry
    fields = [each.name for each in dataclasses.fields(value)] if dataclasses.is_dataclass(value) else []
    inside = {key for key, _ in parts}
    if len(parts) < len(fields) == len(entry):
        pairs = list(zip(fields, entry, strict=True))
        if all(of is None for field, of in pairs if field not in inside):
            entry = [of for field, of in pairs if field in inside]
    by_key = dict(parts) if isinstance(entry, dict) else dict(enumerate(part for _, part in parts))
    steps = entry.items() if isinstance(entry, dict) else enumerate(entry)
    changed = {key: _of_contents(by_key.get(key), of) for key, of in steps}
    return changed if isinstance(entry, dict) else type(entry)(changed.values())


def _of_objects(name: str, value: Any, entry: Any) -> Iterator[str]:
    """Say which objects of registered classes have other entries than a list of one for each of their contents."""
    parts = keyed_children(value) if entry is not None else None
    if parts is None:
        return
    is_object = type(value) not in pytree.BUILTIN_TYPES and not isinstance(value, tuple)
    if is_object and not (isinstance(entry, list) and len(entry) == len(parts)):
        keys = ", ".join(str(key) for key, _ in parts)
        takes = f"a list with one entry for each of {keys}; a field that is None may have the entry None"
        yield f"`{name}` is a {type(value).__name__}, which takes {takes}: got {entry!r}"
        return
    entries = entry if isinstance(entry, Mapping) else dict(enumerate(entry) if isinstance(entry, list | tuple) else ())
    for place, (key, part) in enumerate(parts):
        step = f".{key}" if is_object else f"[{key!r}]"
        yield from _of_objects(f"{name}{step}", part, entries.get(key if isinstance(entry, Mapping) else place))


def _check_names(given: Mapping[Any, Any], names: Sequence[str], static: Container[str]) -> None:
    """Check that each input has an entry, but for those that are `static` without one."""
    left_out = [name for name in names if name not in given and name not in static]
    if not left_out and set(given) <= set(names):
        return
    entries = ", ".join(f'"{name}": None' for name in left_out)
    instead = f": add {entries}, which makes sizes constant" if set(given) < set(names) else ""
    raise UsageError(f"dynamic_shapes names {sorted(map(str, given))}, but the inputs are {names}{instead}")


def _under_their_parameter(mod: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], shapes: Any) -> Any:
    try:
        return _normalized(shapes, mod, args, kwargs)
    except torch._dynamo.exc.UserError as error:
        raise UsageError(first_line(error)) from None


@dataclasses.dataclass(frozen=True, slots=True)
class DynamicShapes:
    """dynamic_shapes as torch.export reads them.

    Attributes:
        given: as given, or as it is attached to the model; a ShapesCollection as a tree.
        tree: the same as a tree.
        entries: the entry of each flat input, by source name.
        roots: the names of the Dims in them.
        relations: the assumptions of a spec.
        hints: the sizes for which compilers should tune, by the name of a spec's variable.
    """

    given: Any
    tree: Any
    entries: Mapping[str, Any]
    roots: Collection[str]
    relations: tuple[str, ...] = ()
    hints: Mapping[str, int] = dataclasses.field(default_factory=dict)


def further_inputs(shapes: torch.export.AdditionalInputs) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Return the positional and keyword arguments of each call that AdditionalInputs holds."""
    return [(given, more or {}) for given, more in shapes._examples]


def read_shapes(mod: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], shapes: Any) -> DynamicShapes:
    """Read dynamic_shapes in any form.

    Raises:
        UsageError: their structure is not that of the inputs.
    """
    given = _resolved(mod, shapes)
    if isinstance(given, torch.export.AdditionalInputs | torch.export.ShapesCollection):
        given = _as_tree(given, mod, args, kwargs)
    entries = dict[str, Any]()
    if not is_spec(given):
        if given:
            map_shapes(mod, args, kwargs, given, entries.__setitem__)
        return DynamicShapes(given, given, entries, dims.root_names(entries))
    from shapeproof.export.shim.inputs.spec_language import read_spec

    spec = read_spec(given, bind(mod, args, kwargs), _parameters(mod))
    map_shapes(mod, args, kwargs, spec.tree, entries.__setitem__)
    return DynamicShapes(given, spec.tree, entries, dims.root_names(entries), spec.relations, spec.hints)


def _resolved(mod: torch.nn.Module, shapes: Any) -> Any:
    """Return what is declared: dynamic_shapes, or the spec that `@dynamic_spec` has set on the model's forward."""
    attached = _attached(mod)
    if attached is not None and shapes is not None:
        raise UsageError("the model's forward has a @dynamic_spec, and dynamic_shapes is given: expected one of them")
    return shapes if attached is None else attached


def is_spec(shapes: Any) -> bool:
    """True if what was given as dynamic_shapes is in torch's spec language."""
    return isinstance(shapes, ShapesSpec | ParamsSpec)


def without_assumptions(mod: torch.nn.Module, shapes: Any) -> Any:
    """Return what is declared, without the assumptions of a spec."""
    given = _resolved(mod, shapes)
    return (given._params or ParamsSpec()) if isinstance(given, ShapesSpec) else given


def _attached(mod: torch.nn.Module) -> ShapesSpec | None:
    return getattr(mod.forward, "_dynamic_spec", None)


@contextlib.contextmanager
def spec_is_read(mod: torch.nn.Module) -> Iterator[None]:
    """Inside this block, torch finds no `@dynamic_spec` on the model's forward, which it refuses beside other sizes."""
    if _attached(mod) is None:
        yield
        return
    with replaced(getattr(mod.forward, "__func__", mod.forward), _dynamic_spec=None):
        yield


def _as_tree(shapes: Any, mod: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    try:
        return shapes.dynamic_shapes(mod, args, kwargs)
    except (ValueError, AssertionError, TypeError) as error:
        raise UsageError(first_line(error)) from None


def read_collection(
    mod: torch.nn.Module, args: Any, kwargs: Any, shapes: Any
) -> tuple[tuple[Any, ...], dict[str, Any], Any]:
    """Return the inputs and dynamic_shapes, a ShapesCollection as a tree: it knows an int by its wrapper in the inputs.

    Raises:
        UsageError: the collection names a tensor or an int that is no input.
    """
    if not isinstance(shapes, torch.export.ShapesCollection):
        return args, kwargs, shapes
    tree = _as_tree(shapes, mod, args, kwargs or {})
    plain, named = pytree.tree_map_only(torchs_shapes._IntWrapper, lambda wrapped: wrapped.val, (args, kwargs))
    return plain, named, tree


def rebuild_inputs(
    args: tuple[Any, ...], kwargs: dict[str, Any], values: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the same structure with other leaves; `values` in the order of the flat inputs of (args, kwargs)."""
    _, spec = pytree.tree_flatten((args, kwargs))
    return pytree.tree_unflatten(list(values.values()), spec)


def bind(mod: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the inputs by the names of the model's parameters, in the order of the program's inputs.

    The order is that of positional arguments, then keywords, if `kwargs` is `in_order`.
    """
    try:
        bound = dict(_combine_args(mod, args, kwargs))
    except (TypeError, ValueError) as error:  # Python tells the parameters of no builtin function
        raise UsageError(f"the inputs do not fit the model's forward: {error}") from None
    parameters = _parameters(mod)
    named = {k: bound.pop(k) for k in kwargs if _takes(parameters, k)}
    inside = {k: bound.pop(k) for k in list(bound) if parameters[k].kind is inspect.Parameter.VAR_KEYWORD}
    return bound | named | inside


def in_order(mod: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments with those that go into the model's `**kwargs` last.

    Inputs are told apart by their place: the names that `bind` gives must come in the order of the values.
    """
    bind(mod, args, kwargs)  # raises if they do not fit
    parameters = _parameters(mod)
    return {k: kwargs[k] for k in kwargs if _takes(parameters, k)} | kwargs


def _takes(parameters: Mapping[str, inspect.Parameter], keyword: str) -> bool:
    """True if a parameter of this name takes the keyword; `def f(a, /, **more)` takes `a=` into `more`."""
    parameter = parameters.get(keyword)
    return parameter is not None and parameter.kind in {parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY}


def _parameters(mod: torch.nn.Module) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(mod.forward).parameters


@contextlib.contextmanager
def keywords_ranged() -> Iterator[None]:
    """Inside this block, torch.export takes dynamic sizes in `**kwargs`: until torch 2.14 it counts them twice."""
    if hasattr(torchs_shapes, "_combine_args_for_tracing"):
        yield
        return
    ranges = torch.export._trace._get_range_constraints

    def of_parameters(mod: Any, export_artifact: Any, args: Any, kwargs: Any, dynamic_shapes: Any) -> Any:
        bound = bind(mod, args, kwargs)
        return ranges(_taking(bound), export_artifact, (), bound, dynamic_shapes)

    with replaced(torch.export._trace, _get_range_constraints=of_parameters):
        yield


def _taking(names: Mapping[str, Any]) -> Any:
    """Return a function whose parameters have these names."""

    def function() -> None: ...

    kind = inspect.Parameter.KEYWORD_ONLY
    vars(function)["__signature__"] = inspect.Signature([inspect.Parameter(name, kind) for name in names])
    return function


def _flatten(tree: Any) -> list[tuple[Any, Any]]:
    return pytree.tree_flatten_with_path(tree)[0]


def map_leaves(change: Callable[..., Any], tree: Any, *shapes: Any) -> Any:
    """Map a tree as dynamic_shapes does, which treats a user's class as the list of its contents."""
    sources = iter([_source(path) for path, _ in _flatten(tree)])  # torch's own paths start again inside such a class
    return _tree_map_with_path(
        lambda _path, _leaf, *entry: change(next(sources), *entry), tree, *shapes, tree_name="inputs"
    )


def _source(path: Sequence[Any]) -> str:
    """Return torch's source name of a flat input: `L['x'][0]`."""
    return f"L[{path[0].key!r}]{_keys(path[1:])}"


def _keys(path: Sequence[Any]) -> str:
    return "".join(pytree.keystr((key,)) for key in path)
