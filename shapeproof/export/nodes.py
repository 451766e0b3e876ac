"""Reads the nodes of a traced graph, and notes on added ones what torch expects, by the public face of torch.fx.

Nothing is traced or decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from shapeproof.export import tracing

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
}
"""Operators that return their operand, a view of it or a copy, as the sizes and types will have it."""


def mutates(program: torch.export.ExportedProgram) -> bool:
    """Whether the program changes any tensor in place."""
    return any(changed_operands(node) for node in program.graph.nodes)


def changed_operands(node: torch.fx.Node) -> list[torch.fx.Node]:
    """The operands that a node writes into."""
    schema = getattr(node.target, "_schema", None)
    if schema is None or not schema.is_mutable:
        return []
    named = dict(zip((argument.name for argument in schema.arguments), node.args, strict=False)) | dict(node.kwargs)
    written = (named.get(a.name) for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write)
    return [operand for value in written for operand in tracing.leaves(value) if isinstance(operand, torch.fx.Node)]


def is_view_operator(target: Any, *, pure: bool) -> bool:
    """Whether an operator returns a view of its first operand, and never a copy.

    Where nothing is written into the result (`pure`) it makes no difference whether `reshape` and its like have copied.
    """
    schema = getattr(target, "_schema", None)
    if schema is None or schema.is_mutable or (not pure and str(target).split(".")[1] in _COPY_OR_VIEW):
        return False
    aliased = [a for a in schema.arguments if a.alias_info is not None]
    return bool(aliased) and all(r.alias_info is not None for r in schema.returns)


def describe_node(node: torch.fx.Node, target: Callable[..., Any], values: Sequence[Any]) -> None:
    """Give an added node the metadata that torch's verifier and serializer expect."""
    is_assertion = target is tracing.ASSERTION
    is_size = target is torch.ops.aten.sym_size.int
    node.meta["val"] = None if is_assertion else values[0].shape[values[1]] if is_size else target(*values)
    node.meta["stack_trace"] = ""
    node.meta["nn_module_stack"] = _root_stack(node.graph)


def _root_stack(graph: torch.fx.Graph) -> dict[str, Any]:
    """The module stack of a node that belongs to the outermost module."""
    stacks = (node.meta.get("nn_module_stack") for node in graph.nodes if node.op == "call_function")
    return next((dict(list(stack.items())[:1]) for stack in stacks if stack), {"L__self__": ("", "torch.nn.Module")})
