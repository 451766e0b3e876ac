"""Calls that read a tensor property which no operator of a graph computes again: strides, offset, gradients.

The trace keeps these values of the example as constants, so inputs must have the same properties as the example. What
the model does to its gradients, beside its operators, is in no graph.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any

import torch

STRIDES = "strides"
OFFSET = "the storage offset"
GRADIENT = "requires_grad"
LEAF = "is_leaf"
HOOK = "a hook on a tensor"
FUNCTION = "the backward of an autograd.Function"
GRAD_FN = "what the model does by grad_fn"
REQUIRED = "requires_grad of a tensor that the model makes"
DISABLED = "whatever the model does beside its operators where gradients are enabled: it was traced without"
OWN_BACKWARD = frozenset({HOOK, FUNCTION, GRAD_FN, REQUIRED, DISABLED})
"""What of a model's gradients its graph has not."""

# The offset of a view follows from the strides of its base.
_BY_NAME = {
    "stride": frozenset({STRIDES}),
    "is_contiguous": frozenset({STRIDES}),
    "dim_order": frozenset({STRIDES}),
    "storage_offset": frozenset({OFFSET, STRIDES}),
    "requires_grad": frozenset({GRADIENT}),
    "is_leaf": frozenset({GRADIENT, LEAF}),  # a result is a leaf where no operand has a gradient
    "grad_fn": frozenset({GRADIENT, LEAF, GRAD_FN}),
    "register_hook": frozenset({HOOK}),
    "register_post_accumulate_grad_hook": frozenset({HOOK}),
    "requires_grad_": frozenset({REQUIRED}),
}
_READ: dict[Hashable, frozenset[str]] = {
    getattr(member, "__get__", member) if inspect.isdatadescriptor(member) else member: read
    for name, read in _BY_NAME.items()
    if (member := getattr(torch.Tensor, name))
} | {getattr(torch.Tensor, name).__set__: read for name, read in {"requires_grad": frozenset({REQUIRED})}.items()}


_MEMBERS = (
    *("device", "dtype", "is_nested", "is_quantized", "is_sparse", "layout", "shape"),
    *("_is_view", "dim", "is_conj", "is_inference", "is_neg", "numel", "size"),
)
METADATA = frozenset(
    getattr(member, "__get__", member) if inspect.isdatadescriptor(member) else member
    for member in (getattr(torch.Tensor, name) for name in _MEMBERS)
)
"""What torch's tracer reads of every tensor: it runs no operator, and a graph has it without a note."""


_WITH_BODIES = frozenset({"cond", "while_loop", "scan", "associative_scan", "flex_attention"})
"""Functions of torch whose bodies dynamo traces, where the mode sees no calls."""


def has_bodies(names: Collection[str]) -> bool:
    """True if a model's code, by the names in it, calls such a function, or imports one of torch's private ones.

    >>> has_bodies({"cond", "relu"}), has_bodies({"torch._higher_order_ops.map"}), has_bodies({"relu"})
    (True, True, False)
    """
    return not _WITH_BODIES.isdisjoint(names) or any("_higher_order_ops" in name for name in names)


_DIFFERENTIATING = frozenset({"grad", "grad_and_value", "hessian", "jacrev", "vjp"})


def differentiates(names: Collection[str]) -> bool:
    """True if a model's code, by the names in it, may take gradients.

    >>> differentiates({"func", "grad"}), differentiates({"relu", "no_grad"})
    (True, False)
    """
    return not _DIFFERENTIATING.isdisjoint(names)


IDENTITY = "is"
"""Stands for a name: the user's own code asks if two objects are one. Libraries ask that of modules and functions."""
_TELLING = frozenset({IDENTITY, "_is_alias_of", "_base", "_is_view"})


def tells_aliases(names: Collection[str]) -> bool:
    """True if a model's code, by the names in it, may ask if a tensor is another one or shares its storage.

    >>> tells_aliases({"relu", "_base"}), tells_aliases({"relu"})
    (True, False)
    """
    return not _TELLING.isdisjoint(names)


def read_in_bodies(names: Collection[str]) -> set[str]:
    """Return the properties that the bodies of a model's torch.cond may read, by the names in its code.

    >>> read_in_bodies({"cond", "is_contiguous", "relu"}), read_in_bodies({"stride"})
    ({'strides'}, set())
    """
    if not has_bodies(names):
        return set()
    return {each for name, read in _BY_NAME.items() if name in names for each in read}


def properties_read(func: Any) -> frozenset[str]:
    """Return the tensor properties that a call of torch reads.

    >>> properties_read(torch.Tensor.is_contiguous), properties_read(torch.Tensor.size)
    (frozenset({'strides'}), frozenset())
    """
    return _READ.get(func, frozenset())


_REFUSING = frozenset({torch.view_as_complex})
"""Functions that reject a stride even where the size is 1."""


def acts_on_layout(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """True if a function of torch acts on a tensor's layout in its storage, not only on the elements that it reaches.

    >>> x = torch.ones(2, 2)
    >>> acts_on_layout(torch.Tensor.view, (x, torch.int32), {}), acts_on_layout(torch.Tensor.view, (x, 4), {})
    (True, False)
    """
    given = (*args, *kwargs.values())
    as_another_type = func is torch.Tensor.view and any(isinstance(each, torch.dtype) for each in given)
    return as_another_type or func in _REFUSING or STRIDES in properties_read(func)


def tensor_of(args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.Tensor:
    """Return the tensor whose layout such a call acts on.

    >>> tuple(tensor_of((), {"input": torch.ones(3, 2)}).shape)
    (3, 2)
    """
    return next(each for each in (*args, *kwargs.values()) if isinstance(each, torch.Tensor))
