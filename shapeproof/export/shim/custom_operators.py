"""Finds torch's records of custom operators: the overload, the Python kernel and the fake kernel."""

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
    """Return the overload of an overload, a packet with a single one, a `torch.library.custom_op`, or a name.

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
    """Return the Python function of a `torch.library.custom_op` that runs on the CPU; None for other operators.

    A CPU kernel registered in another way (`Library.impl`) takes precedence and is not visible here.
    """
    known = _maybe_get_opdef(operator)
    if known is None or known._disabled_kernel:
        return None
    found = known._backend_fns.get("cpu")
    if found is None and not torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), "CPU"):
        found = known._backend_fns.get(None)
    return None if found is None else inspect.getclosurevars(inspect.unwrap(found)).nonlocals.get("fn")


def fake_kernel(operator: OpOverload) -> Callable[..., Any] | None:
    """Return the function registered as the fake kernel of an operator."""
    known = _maybe_get_opdef(operator)
    if known is not None and known._abstract_fn is not None:
        return known._abstract_fn
    found = singleton.find(operator.name()).fake_impl.kernel
    return None if found is None else found.func
