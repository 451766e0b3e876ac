"""What the schema of an operator says: its arguments by name, what it writes into, what it returns a view of.

Nothing is traced or run here.
"""

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
"""Operators that return their operand, a view of it or a copy, as the sizes and types will have it."""

_KEEPING = {"aten.batch_norm.default": "training", "aten.instance_norm.default": "use_input_stats"}
"""Operators that keep running statistics, which their schemas do not say, and the argument that has them do so.
https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm2d.html"""

_RESIZING = {"resize_", "resize_as_", "set_", "resize_as_sparse_"}

_STATING = {"aten.sym_constrain_range.default", "aten.sym_constrain_range_for_size.default"}
"""Operators by which a user states the range of a number."""


def is_foreign(target: Any) -> bool:
    """Whether it is an operator that is not torch's own."""
    return schema_of(target) is not None and target.namespace not in OWN_NAMESPACES


def schema_of(target: Any) -> Any:
    """The schema of an operator; None for what is none."""
    return getattr(target, "_schema", None)


def is_trusted(target: Any) -> bool:
    """Whether what an operator says of its results is torch's own word, and not the user's."""
    return getattr(target, "namespace", None) in OWN_NAMESPACES and str(target) not in _STATING


@functools.cache
def _parameters(target: Any) -> tuple[tuple[str, ...], Mapping[str, Any], tuple[str, ...]]:
    """The names of an operator's arguments, their defaults, and those that it writes into: slow to read off."""
    arguments = schema_of(target).arguments
    defaults = {a.name: a.default_value for a in arguments if a.has_default_value()}
    changed = (a.name for a in arguments if a.alias_info is not None and a.alias_info.is_write)
    return tuple(a.name for a in arguments), defaults, tuple(changed)


def by_name(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of an operator by name, defaults included."""
    names, defaults, _ = _parameters(target)
    return {**defaults, **dict(zip(names, args, strict=False)), **kwargs}


def written(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """The arguments that an operator writes into, running statistics included; `detach_` writes nothing."""
    if str(target) in _KEEPING:
        named = by_name(target, args, kwargs)
        return [named["running_mean"], named["running_var"]] if named[_KEEPING[str(target)]] else []
    if not is_mutable(target) or target is torch.ops.aten.detach_.default:
        return []
    named = by_name(target, args, kwargs)
    return [named.get(name) for name in _parameters(target)[2]]


def copies_or_views(target: Any) -> bool:
    """Whether an operator returns its operand, a view of it or a copy, as the sizes will have it."""
    return schema_of(target) is not None and target.overloadpacket.__name__ in _COPY_OR_VIEW


def is_view_operator(target: Any, *, pure: bool) -> bool:
    """Whether an operator returns a view of its first operand, and never a copy.

    Where nothing is written into the result (`pure`) it makes no difference whether `reshape` and its like have copied.
    """
    schema = schema_of(target)
    if schema is None or schema.is_mutable or (not pure and copies_or_views(target)):
        return False
    aliased = [a for a in schema.arguments if a.alias_info is not None]
    return bool(aliased) and all(r.alias_info is not None for r in schema.returns)


def is_repeatable(target: Any) -> bool:
    """Whether an operator, run again on aliases of its operands, leaves nothing behind.

    It may change the contents and the view of an operand in place. It may not change the size of a storage, as
    `resize_` and operators with an `out` may.
    """
    schema = schema_of(target)
    if schema is None:
        return False
    name = target.overloadpacket.__name__
    return not schema.is_mutable or (name.endswith("_") and name not in _RESIZING)


def only_writes(target: Any) -> bool:
    """Whether it is an operator of torch's in place that changes elements, and not how a tensor lies."""
    if schema_of(target) is None or target.namespace != "aten" or torch.Tag.inplace_view in target.tags:
        return False
    name = target.overloadpacket.__name__
    return name.endswith("_") and name not in _RESIZING


@functools.cache
def is_mutable(target: Any) -> bool:
    """Whether an operator changes an operand."""
    schema = schema_of(target)
    return schema is not None and bool(schema.is_mutable)
