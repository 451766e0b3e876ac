"""Reads the nodes of a traced graph, and notes on added ones what torch expects, by the public face of torch.fx.

Nothing is traced or decided here.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from shapeproof.constraints.records.decisions import SourceLocation
from shapeproof.export.ops import schemas
from shapeproof.export.source.frames import in_torch

_PADDING = {"constant_pad_nd": "pad", "pad": "pad"} | {
    f"{kind}_pad{dims}d": "padding" for kind in ("reflection", "replication") for dims in (1, 2, 3)
}
"""Operators that pad, and the argument that says by how much.
https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.pad.html"""


_PLAIN_COPIES = {"clone", "lift_fresh_copy"}
_COPYING = {"repeat", *_PLAIN_COPIES}
"""Operators that copy their operand, where what they repeat it by is 1."""


_LINE = re.compile(r'^ *File "(?P<file>.+)", line (?P<line>\d+), in .+\n *(?P<text>.*)$', re.MULTILINE)


def line_of(node: torch.fx.Node) -> SourceLocation | None:
    """The user's line, off the stack that torch notes."""
    lines: Sequence[re.Match[str]] = list(_LINE.finditer(node.meta.get("stack_trace") or ""))
    users = [line for line in lines if not in_torch(line["file"])] or lines
    return SourceLocation(users[-1]["file"], int(users[-1]["line"]), users[-1]["text"]) if users else None


def foreign_operators(module: torch.fx.GraphModule) -> list[str]:
    """The names of a program's operators that are not torch's own, those in its bodies included."""
    graphs = [each.graph for each in module.modules() if isinstance(each, torch.fx.GraphModule)]
    called = (node.target for graph in graphs for node in graph.nodes if node.op == "call_function")
    return list(dict.fromkeys(target.name() for target in called if schemas.is_foreign(target)))


def mutates(graph: torch.fx.Graph) -> bool:
    """Whether a graph changes any tensor in place."""
    return any(changed_operands(node) for node in graph.nodes)


def used(graph: torch.fx.Graph) -> list[torch.fx.Node]:
    """The nodes that a consumer keeps: those that do more than give a result, and whatever these make use of."""
    kept: dict[torch.fx.Node, None] = {}
    for node in reversed(graph.nodes):
        if node in kept or node.is_impure():
            kept |= dict.fromkeys((node, *node.all_input_nodes))
    return list(reversed(kept))


def is_random(graph: torch.fx.Graph) -> bool:
    """Whether a graph draws random numbers."""
    return any(torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()) for node in graph.nodes)


def changed_operands(node: torch.fx.Node) -> list[torch.fx.Node]:
    """The operands that a node writes into; all that are given to a body that writes."""
    if any(map(body_writes, node.all_input_nodes)):
        return [operand for operand in node.all_input_nodes if operand.op != "get_attr"]
    found: list[torch.fx.Node] = []
    torch.fx.map_arg(schemas.written(node.target, node.args, node.kwargs), found.append)
    return found


def body_writes(node: torch.fx.Node) -> bool:
    """Whether a node is the body of a higher-order operator in which something is written into."""
    body = getattr(node.graph.owning_module, str(node.target), None) if node.op == "get_attr" else None
    return isinstance(body, torch.fx.GraphModule) and mutates(body.graph)


def copying(node: torch.fx.Node) -> tuple[torch.fx.Node | None, list[Any], int]:
    """The operand that an operator copies where some numbers among its arguments all have one value, and that value."""
    if schemas.schema_of(node.target) is None or node.op != "call_function":
        return None, [], 0
    name, named = node.target.overloadpacket.__name__, schemas.by_name(node.target, node.args, node.kwargs)  # type: ignore[union-attr]
    if name in _PADDING:
        return named["self"], list(named[_PADDING[name]]), 0
    if name == "repeat":
        return named["self"], list(named["repeats"]), 1
    return (named["self"] if name in _PLAIN_COPIES else None), [], 0


def operators(graph: torch.fx.Graph) -> list[Any]:
    """The operators of a graph that no comparison passes over: neither views nor copies, and no numbers."""
    called = (node.target for node in graph.nodes if node.op == "call_function")
    return [target for target in called if _always_counts(target)]


@functools.cache
def _always_counts(target: Any) -> bool:
    schema = schemas.schema_of(target)
    if schema is None or not any("Tensor" in str(given.type) for given in schema.returns):
        return False
    name = target.overloadpacket.__name__
    return not (schemas.is_view_operator(target, pure=True) or name in _PADDING or name in _COPYING)


def insert_call(
    before: torch.fx.Node, target: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any] | None = None
) -> torch.fx.Node:
    """Add a node for a call on nodes and numbers, with the metadata that torch's verifier and serializer expect."""
    with before.graph.inserting_before(before):
        node = before.graph.call_function(target, tuple(args), dict(kwargs or {}))
    _describe(node, target, [arg.meta["val"] if isinstance(arg, torch.fx.Node) else arg for arg in args])
    return node


def _describe(node: torch.fx.Node, target: Callable[..., Any], values: Sequence[Any]) -> None:
    gives_nothing = not getattr(schemas.schema_of(target), "returns", True)
    is_size = target is torch.ops.aten.sym_size.int
    node.meta["val"] = None if gives_nothing else values[0].shape[values[1]] if is_size else target(*values)
    node.meta["stack_trace"] = ""
    node.meta["nn_module_stack"] = _root_stack(node.graph)


def _root_stack(graph: torch.fx.Graph) -> dict[str, Any]:
    """The module stack of a node that belongs to the outermost module."""
    stacks = (node.meta.get("nn_module_stack") for node in graph.nodes if node.op == "call_function")
    return next((dict(list(stack.items())[:1]) for stack in stacks if stack), {"L__self__": ("", "torch.nn.Module")})
