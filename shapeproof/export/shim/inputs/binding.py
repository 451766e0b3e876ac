"""Binds example inputs and `dynamic_shapes` to the parameters of a model, by torch's own source names.

Binding reads no sizes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch._dynamo.exc
import torch._functorch.config
import torch.utils._pytree as pytree
from torch.export import dynamic_shapes as torchs_shapes
from torch.export.dynamic_shapes import _combine_args, _tree_map_with_path

from shapeproof.constraints.errors import UsageError
from shapeproof.export.shim.numbers.symbols import TorchConstraintError
from shapeproof.wording import first_line

_normalized: Callable[..., Any] = getattr(torchs_shapes, "_normalize_dynamic_shapes", lambda shapes, *_: shapes)
"""From torch 2.14 on, dynamic_shapes may name an argument of `**kwargs` directly."""


def name_leaves(mod: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, str, Any]]:
    """Return the flat inputs in order: torch's source name, the name by the model's parameters, the value."""
    paths = _flatten(bind(mod, args, kwargs))
    return [(_source(path), f"{path[0].key}{_keys(path[1:])}", value) for path, value in paths]


def flat_inputs(signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return the flat inputs of a call in any order, with the source names that `name_leaves` gives them."""
    paths = _flatten(dict(signature.bind(*args, **kwargs).arguments))
    return [(_source(path), value) for path, value in paths]


def match_shapes(mod: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], shapes: Any) -> dict[str, Any]:
    """Return the entry of dynamic_shapes for each flat input, by source name.

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
    """Return dynamic_shapes in the given form, with each entry replaced by `change(source name, entry)`.

    Raises:
        UsageError: the structure of dynamic_shapes is not that of the inputs.
    """
    combined: Any = bind(mod, args, kwargs)
    names = list(combined)
    given = _under_their_parameter(mod, args, kwargs, shapes)
    given = given or _tree_map_with_path(lambda _path, _leaf: None, combined)
    if isinstance(given, Mapping):
        if set(given) != set(names):
            raise UsageError(f"dynamic_shapes names {sorted(map(str, given))}, but the inputs are {names}")
    elif isinstance(given, tuple | list):
        if len(given) != len(names):
            raise UsageError(f"dynamic_shapes has {len(given)} entries for {len(names)} inputs ({', '.join(names)})")
        given = dict(zip(names, given, strict=True))
    else:
        raise UsageError(f"dynamic_shapes must be a dict, a tuple or a list, not {type(given).__name__}")
    try:
        mapped = map_leaves(change, combined, given)
    except (ValueError, AssertionError, TorchConstraintError) as error:
        raise UsageError(f"dynamic_shapes does not match the inputs: {first_line(error)}") from None
    return type(shapes)(mapped.values()) if isinstance(shapes, tuple | list) else mapped


def _under_their_parameter(mod: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], shapes: Any) -> Any:
    try:
        return _normalized(shapes, mod, args, kwargs)
    except torch._dynamo.exc.UserError as error:
        raise UsageError(first_line(error)) from None


def resolve_shapes(
    mod: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], shapes: Any
) -> tuple[Any, list[tuple[tuple[Any, ...], dict[str, Any]]]]:
    """Return dynamic_shapes as a tree, and the further inputs that AdditionalInputs holds."""
    if getattr(mod.forward, "_dynamic_spec", None) is not None:  # torch.export would use the spec as dynamic_shapes
        raise UsageError("invalid @dynamic_spec on the model's forward: expected its sizes as Dims, in dynamic_shapes")
    try:
        if isinstance(shapes, torch.export.AdditionalInputs):
            others = [(given, more or {}) for given, more in shapes._examples]
            return shapes.dynamic_shapes(mod, args, kwargs), others
        if isinstance(shapes, torch.export.ShapesCollection):
            return shapes.dynamic_shapes(mod, args, kwargs), []
    except (ValueError, AssertionError, TypeError) as error:
        raise UsageError(first_line(error)) from None
    return shapes, []


def rebuild_inputs(
    args: tuple[Any, ...], kwargs: dict[str, Any], values: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the same structure with other leaves; `values` in the order of the flat inputs of (args, kwargs)."""
    _, spec = pytree.tree_flatten((args, kwargs))
    return pytree.tree_unflatten(list(values.values()), spec)  # type: ignore[no-any-return]


def bind(mod: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the inputs by the names of the model's arguments, in the order of the program's inputs."""
    try:
        bound = dict(_combine_args(mod, args, kwargs))
    except TypeError as error:
        raise UsageError(f"the example inputs do not fit the model's forward: {error}") from None
    # Positional arguments come first in the program, keywords in the order given.
    return {k: v for k, v in bound.items() if k not in kwargs} | {k: bound[k] for k in kwargs if k in bound}


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
