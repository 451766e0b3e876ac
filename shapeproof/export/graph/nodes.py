"""Reads the nodes of a traced graph, and notes on added ones what torch expects, by the public face of torch.fx.

Nothing is traced or decided here.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from shapeproof.constraints.decisions import SourceLocation
from shapeproof.export.source.frames import in_torch

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


_PADDING = {"constant_pad_nd": "pad", "pad": "pad"} | {
    f"{kind}_pad{dims}d": "padding" for kind in ("reflection", "replication") for dims in (1, 2, 3)
}
"""Operators that pad, and the argument that says by how much.
https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.pad.html"""


_PLAIN_COPIES = {"clone", "lift_fresh_copy"}
_COPYING = {"repeat", *_PLAIN_COPIES}
"""Operators that copy their operand, where what they repeat it by is 1."""


_KEEPING = {"aten.batch_norm.default": "training", "aten.instance_norm.default": "use_input_stats"}
"""Operators that keep running statistics, which their schemas do not say, and the argument that has them do so.
https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm2d.html"""


_RESIZING = {"resize_", "resize_as_", "set_", "resize_as_sparse_"}


_LINE = re.compile(r'^ *File "(?P<file>.+)", line (?P<line>\d+), in .+\n *(?P<text>.*)$', re.MULTILINE)


def line_of(node: torch.fx.Node) -> SourceLocation | None:
    """The user's line, off the stack that torch notes."""
    lines: Sequence[re.Match[str]] = list(_LINE.finditer(node.meta.get("stack_trace") or ""))
    users = [line for line in lines if not in_torch(line["file"])] or lines
    return SourceLocation(users[-1]["file"], int(users[-1]["line"]), users[-1]["text"]) if users else None


def is_foreign(target: Any) -> bool:
    """Whether it is an operator that is not torch's own."""
    return schema_of(target) is not None and target.namespace not in OWN


def foreign_operators(module: torch.fx.GraphModule) -> list[str]:
    """The names of a program's operators that are not torch's own, those in its bodies included."""
    graphs = [each.graph for each in module.modules() if isinstance(each, torch.fx.GraphModule)]
    called = (node.target for graph in graphs for node in graph.nodes if node.op == "call_function")
    return list(dict.fromkeys(target.name() for target in called if is_foreign(target)))


def schema_of(target: Any) -> Any:
    """The schema of an operator; None for what is none."""
    return getattr(target, "_schema", None)


OWN = {"aten", "prims", "prim", "higher_order"}
"""The namespaces of torch's own operators."""
_STATING = {"aten.sym_constrain_range.default", "aten.sym_constrain_range_for_size.default"}
"""Operators by which a user states the range of a number."""


def is_trusted(target: Any) -> bool:
    """Whether what an operator says of its results is torch's own word, and not the user's."""
    return getattr(target, "namespace", None) in OWN and str(target) not in _STATING


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
    torch.fx.map_arg(written(node.target, node.args, node.kwargs), found.append)
    return found


def body_writes(node: torch.fx.Node) -> bool:
    """Whether a node is the body of a higher-order operator in which something is written into."""
    body = getattr(node.graph.owning_module, str(node.target), None) if node.op == "get_attr" else None
    return isinstance(body, torch.fx.GraphModule) and mutates(body.graph)


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


def copying(node: torch.fx.Node) -> tuple[torch.fx.Node | None, list[Any], int]:
    """The operand that an operator copies where some numbers among its arguments all have one value, and that value."""
    if schema_of(node.target) is None or node.op != "call_function":
        return None, [], 0
    name, named = node.target.overloadpacket.__name__, by_name(node.target, node.args, node.kwargs)  # type: ignore[union-attr]
    if name in _PADDING:
        return named["self"], list(named[_PADDING[name]]), 0
    if name == "repeat":
        return named["self"], list(named["repeats"]), 1
    return (named["self"] if name in _PLAIN_COPIES else None), [], 0


def copies_or_views(target: Any) -> bool:
    """Whether an operator returns its operand, a view of it or a copy, as the sizes will have it."""
    return schema_of(target) is not None and target.overloadpacket.__name__ in _COPY_OR_VIEW


def operators(graph: torch.fx.Graph) -> list[Any]:
    """The operators of a graph that no comparison passes over: neither views nor copies, and no numbers."""
    called = (node.target for node in graph.nodes if node.op == "call_function")
    return [target for target in called if _always_counts(target)]


@functools.cache
def _always_counts(target: Any) -> bool:
    schema = schema_of(target)
    if schema is None or not any("Tensor" in str(given.type) for given in schema.returns):
        return False
    name = target.overloadpacket.__name__
    return not (is_view_operator(target, pure=True) or name in _PADDING or name in _COPYING)


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


@functools.cache
def is_mutable(target: Any) -> bool:
    """Whether an operator changes an operand."""
    schema = schema_of(target)
    return schema is not None and bool(schema.is_mutable)


def insert_call(
    before: torch.fx.Node, target: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any] | None = None
) -> torch.fx.Node:
    """Add a node for a call on nodes and numbers, with the metadata that torch's verifier and serializer expect."""
    with before.graph.inserting_before(before):
        node = before.graph.call_function(target, tuple(args), dict(kwargs or {}))
    _describe(node, target, [arg.meta["val"] if isinstance(arg, torch.fx.Node) else arg for arg in args])
    return node


def _describe(node: torch.fx.Node, target: Callable[..., Any], values: Sequence[Any]) -> None:
    gives_nothing = not getattr(schema_of(target), "returns", True)
    is_size = target is torch.ops.aten.sym_size.int
    node.meta["val"] = None if gives_nothing else values[0].shape[values[1]] if is_size else target(*values)
    node.meta["stack_trace"] = ""
    node.meta["nn_module_stack"] = _root_stack(node.graph)


def _root_stack(graph: torch.fx.Graph) -> dict[str, Any]:
    """The module stack of a node that belongs to the outermost module."""
    stacks = (node.meta.get("nn_module_stack") for node in graph.nodes if node.op == "call_function")
    return next((dict(list(stack.items())[:1]) for stack in stacks if stack), {"L__self__": ("", "torch.nn.Module")})
