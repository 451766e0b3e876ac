"""Read an operator's schema: its arguments by name, the arguments that it mutates, the views that it returns."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from shapeproof.export.shim.custom_operators import OWN_NAMESPACES

_COPY_OR_VIEW = {
    "reshape",
    "reshape_as",
    "contiguous",
    "to",
    "flatten",
    "_reshape_alias",
    "type_as",
    "view_as_real",
    "ravel",
    "float",
    "double",
    "half",
    "positive",
    "resolve_conj",
    "resolve_neg",
    "sum_to_size",
    "dropout",
    "feature_dropout",
    "alpha_dropout",
    "feature_alpha_dropout",
}
"""Operators that return their operand, a view of it or a copy, depending on sizes and types."""

_KEEPING = {"aten.batch_norm.default": "training", "aten.instance_norm.default": "use_input_stats"}
"""Operators that update running statistics, which their schemas do not say, and the argument that turns this on.
https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm2d.html
"""

_RESIZING = {"resize_", "resize_as_", "set_", "resize_as_sparse_"}

_STATING = {"aten.sym_constrain_range.default", "aten.sym_constrain_range_for_size.default"}
"""Operators that state the user's range of a number."""


def is_foreign(target: Any) -> bool:
    """True if the target is an operator that is not torch's own."""
    return schema_of(target) is not None and target.namespace not in OWN_NAMESPACES


def schema_of(target: Any) -> Any:
    """Return the schema of an operator; None if the target is not an operator."""
    return getattr(target, "_schema", None)


def is_trusted(target: Any) -> bool:
    """True if an operator's statements about its results come from torch, not from the user."""
    return getattr(target, "namespace", None) in OWN_NAMESPACES and str(target) not in _STATING


@functools.cache
def _parameters(target: Any) -> tuple[tuple[str, ...], Mapping[str, Any], tuple[str, ...]]:
    """Return an operator's argument names, their defaults, and the mutated arguments; cached, since it is slow."""
    arguments = schema_of(target).arguments
    defaults = {a.name: a.default_value for a in arguments if a.has_default_value()}
    changed = (a.name for a in arguments if a.alias_info is not None and a.alias_info.is_write)
    return tuple(a.name for a in arguments), defaults, tuple(changed)


def by_name(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of an operator by name, with defaults."""
    names, defaults, _ = _parameters(target)
    return {**defaults, **dict(zip(names, args, strict=False)), **kwargs}


def written(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """Return the arguments that an operator mutates, with running statistics; `detach_` mutates no elements."""
    if str(target) in _KEEPING:
        named = by_name(target, args, kwargs)
        return [named["running_mean"], named["running_var"]] if named[_KEEPING[str(target)]] else []
    if not is_mutable(target) or target is torch.ops.aten.detach_.default:
        return []
    named = by_name(target, args, kwargs)
    return [named.get(name) for name in _parameters(target)[2]]


def copies_or_views(target: Any) -> bool:
    """True if an operator returns its operand, a view of it or a copy, depending on sizes."""
    return schema_of(target) is not None and target.overloadpacket.__name__ in _COPY_OR_VIEW


def is_view_operator(target: Any, *, pure: bool) -> bool:
    """True if an operator returns a view of its first operand, and never a copy.

    `pure`: the result is not mutated, so it makes no difference whether `reshape` and similar operators copy.
    """
    schema = schema_of(target)
    if schema is None or schema.is_mutable or (not pure and copies_or_views(target)):
        return False
    aliased = [a for a in schema.arguments if a.alias_info is not None]
    return bool(aliased) and all(r.alias_info is not None for r in schema.returns)


def is_repeatable(target: Any) -> bool:
    """True if an operator leaves nothing behind when it is run again on aliases of its operands.

    It may mutate an operand in place: its contents and its view. It may not change the size of a storage, as `resize_`
    and operators with an `out` argument may.
    """
    schema = schema_of(target)
    if schema is None:
        return False
    name = target.overloadpacket.__name__
    return not schema.is_mutable or (name.endswith("_") and name not in _RESIZING)


def only_writes(target: Any) -> bool:
    """True for an in-place operator of torch that changes elements, but no tensor's layout."""
    if schema_of(target) is None or target.namespace != "aten" or torch.Tag.inplace_view in target.tags:
        return False
    name = target.overloadpacket.__name__
    return name.endswith("_") and name not in _RESIZING


@functools.cache
def is_mutable(target: Any) -> bool:
    """True if an operator mutates an operand."""
    schema = schema_of(target)
    return schema is not None and bool(schema.is_mutable)
