"""Finds what torch keeps of operators that are not its own: the overload that is meant, the kernel in Python."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch._library.custom_ops import CustomOpDef, _maybe_get_opdef
from torch._library.simple_registry import singleton
from torch._ops import OpOverload, OpOverloadPacket

OWN_NAMESPACES = frozenset({"aten", "prims", "prim", "higher_order"})
"""The namespaces of torch's own operators."""


def overload_of(operator: Any) -> OpOverload | None:
    """The one overload that is meant by an overload, a packet with one, `torch.library.custom_op`'s, or a name.

    >>> str(overload_of("aten::relu"))
    'aten.relu.default'
    """
    if isinstance(operator, str):
        namespace, _, name = operator.partition("::")
        name, _, overload = name.partition(".")
        packet = getattr(getattr(torch.ops, namespace or "aten"), name, None) if name else None
        return getattr(packet, overload or "default", None)
    if isinstance(operator, CustomOpDef):
        return operator._opoverload
    if isinstance(operator, OpOverloadPacket):
        names = operator.overloads()
        return getattr(operator, names[0]) if len(names) == 1 else None
    return operator if isinstance(operator, OpOverload) else None


def python_kernel(operator: OpOverload) -> Callable[..., Any] | None:
    """The function that runs on the CPU, where `torch.library.custom_op` was given one; None for any other.

    A kernel that was registered for the CPU in another way (`Library.impl`) runs in its place, and is not seen here.
    """
    known = _maybe_get_opdef(operator)
    if known is None or known._disabled_kernel:
        return None
    found = known._backend_fns.get("cpu")
    if found is None and not torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), "CPU"):
        found = known._backend_fns.get(None)
    return None if found is None else inspect.getclosurevars(inspect.unwrap(found)).nonlocals.get("fn")


def fake_kernel(operator: OpOverload) -> Callable[..., Any] | None:
    """The function that was registered as the fake kernel of an operator."""
    known = _maybe_get_opdef(operator)
    if known is not None and known._abstract_fn is not None:
        return known._abstract_fn
    found = singleton.find(operator.name()).fake_impl.kernel
    return None if found is None else found.func
