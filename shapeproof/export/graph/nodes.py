"""Reads nodes of a traced graph, and inserts nodes with the metadata that torch expects, by torch.fx's public API."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import torch

from shapeproof.constraints.records.decisions import SourceLocation
from shapeproof.export.ops import schemas
from shapeproof.export.ops.table import SLICE, known_of
from shapeproof.export.shim.callers import OURS
from shapeproof.export.shim.numbers import symbols
from shapeproof.export.shim.process.noted_lines import INNERMOST
from shapeproof.export.shim.trees import graph_modules
from shapeproof.export.source.frames import in_torch

_BLOCKS = (torch.ops.higher_order.wrap_with_set_grad_enabled, torch.ops.higher_order.wrap_with_autocast)
_LINE = re.compile(r'^ *File "(?P<file>.+)", line (?P<line>\d+), in .+\n *(?P<text>.*)$', re.MULTILINE)


def line_of(node: torch.fx.Node) -> SourceLocation | None:
    """Return the user's line: the innermost one, else the last in the stack trace that torch recorded."""
    if (innermost := node.meta.get(INNERMOST)) is not None:
        return cast("SourceLocation", innermost)
    return line_in(node.meta.get("stack_trace") or "")


def line_in(stack: str) -> SourceLocation | None:
    """Return the user's last line in a stack trace of torch's, else the last one."""
    noted = _LINE.finditer(stack)
    lines: Sequence[re.Match[str]] = [line for line in noted if not line["file"].startswith(OURS)]
    users = [line for line in lines if not in_torch(line["file"])] or lines
    return SourceLocation(users[-1]["file"], int(users[-1]["line"]), users[-1]["text"]) if users else None


def said(node: torch.fx.Node) -> str:
    """Return a node in words, with the user's line: "`add` (net.py:12 `x + y`)"."""
    where = line_of(node)
    return f"`{node.name}`" + (f" ({Path(where.file).name}:{where.line} `{where.text.strip()}`)" if where else "")


def metadata(value: Any) -> Any:
    """Return the metadata of a node: its value in the trace; anything but a node is its own value."""
    return value.meta.get("val") if isinstance(value, torch.fx.Node) else value


def arguments(node: torch.fx.Node) -> dict[str, Any]:
    """Return the arguments of a call by name, with the operator's defaults: a slice without a start begins at 0."""
    named = schemas.by_name(node.target, node.args, node.kwargs)
    return {**named, "start": 0} if node.target is SLICE and named["start"] is None else named


def operands(node: torch.fx.Node, value: Callable[[torch.fx.Node], Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a call, by position and by name, with the value of each node in its place."""
    return torch.fx.map_arg((node.args, node.kwargs), value)


def tensors_of(node: torch.fx.Node) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors that a node returns, each with a unique name: `unbind[0]`."""
    value = metadata(node)
    if isinstance(value, torch.Tensor):
        yield node.name, value
    elif isinstance(value, tuple | list):
        for index, each in enumerate(value):
            if isinstance(each, torch.Tensor):
                yield f"{node.name}[{index}]", each


def foreign_operators(module: torch.fx.GraphModule) -> list[str]:
    """Return the names of a program's custom operators, those in its bodies included."""
    return list(dict.fromkeys(node.target.name() for node in _calls(module) if schemas.is_foreign(node.target)))


def counts_writes(module: torch.fx.GraphModule, *, stated: bool) -> bool:
    """True if torch counts every write of a program into a tensor: not those of custom operators, nor statistics.

    `stated`: custom operators write what their schemas say alone, since the caller finds any other write.
    """
    return not any(
        (schemas.is_foreign(node.target) and (schemas.is_mutable(node.target) or not stated))
        or schemas.updates_statistics(node.target, node.args, node.kwargs)
        for node in _calls(module)
    )


def is_run_by_data(module: torch.fx.GraphModule) -> bool:
    """True if data decide which body of a program runs, or how often: `torch.cond`, `while_loop`."""
    return any(node.target in _RUN_BY_DATA for node in _calls(module))


_RUN_BY_DATA = {torch.ops.higher_order.cond, torch.ops.higher_order.while_loop}


def _calls(module: torch.fx.GraphModule) -> Iterator[Any]:
    every = (node for each in graph_modules(module) for node in each.graph.nodes)
    return (node for node in every if node.op == "call_function")


def mutates(graph: torch.fx.Graph) -> bool:
    """True if a graph mutates any tensor."""
    return any(changed_operands(node) for node in graph.nodes)


def keeps_layouts(graph: torch.fx.Graph) -> bool:
    """Whether all that a graph writes into lies as before, and nothing is written in bodies."""
    return all(schemas.only_writes(node.target) for node in graph.nodes if changed_operands(node))


def used(graph: torch.fx.Graph, by: Callable[[torch.fx.Node], bool] = torch.fx.Node.is_impure) -> list[torch.fx.Node]:
    """Return these nodes and those that they depend on, in order; by default what a consumer keeps: impure nodes."""
    kept = set[torch.fx.Node]()
    for node in reversed(graph.nodes):
        if node in kept or by(node):
            kept |= {node, *node.all_input_nodes}
    return [node for node in graph.nodes if node in kept]


def checking(graph: torch.fx.Graph) -> set[torch.fx.Node]:
    """Return the assertions on numbers of a graph, and the nodes that they depend on."""
    return set(used(graph, lambda node: node.target is symbols.ASSERTION))


def is_random(graph: torch.fx.Graph) -> bool:
    """True if a graph draws random numbers."""
    return any(schemas.is_random(node.target) for node in graph.nodes)


def changed_operands(node: torch.fx.Node) -> list[torch.fx.Node]:
    """Return the operands that a node mutates; if the node has a body that mutates anything, all its operands."""
    if any(map(body_writes, node.all_input_nodes)):
        return [operand for operand in node.all_input_nodes if operand.op != "get_attr"]
    found: list[torch.fx.Node] = []
    torch.fx.map_arg(schemas.written(node.target, node.args, node.kwargs), found.append)
    return found


def body_writes(node: torch.fx.Node) -> bool:
    """True if a node is the body of a higher-order operator and the body mutates any tensor."""
    body = _body(node)
    return body is not None and mutates(body.graph)


def bodies(call: torch.fx.Node) -> list[torch.fx.GraphModule]:
    """Return the bodies that a call of a higher-order operator may run."""
    return [body for body in map(_body, call.all_input_nodes) if body is not None]


def graphs_that_run(module: torch.fx.GraphModule) -> Iterator[torch.fx.Graph]:
    """Yield a graph, and each body that runs whenever it does: torch makes one of a block under `torch.no_grad()`."""
    yield module.graph
    for call in calls_of(module.graph, *_BLOCKS):
        for body in bodies(call):
            yield from graphs_that_run(body)


def _body(node: torch.fx.Node) -> torch.fx.GraphModule | None:
    body = getattr(node.graph.owning_module, str(node.target), None) if node.op == "get_attr" else None
    return body if isinstance(body, torch.fx.GraphModule) else None


def copying(node: torch.fx.Node) -> tuple[torch.fx.Node | None, Any, int | None]:
    """Return the copied operand, the numbers that must all have one value for a mere copy, and that value.

    `repeat(x, [2, 1])` gives `x`, `[2, 1]` and 1; `masked_fill(x, mask, 5)` gives `x`, `mask` and 0. An operator that
    is no copy, or that is told the sizes of its result by factors, gives None.
    """
    copies = known_of(node.target).copies if node.op == "call_function" else None
    if copies is None:
        return None, [], 0
    named = arguments(node)
    given = named[copies.argument] if copies.argument else []
    source = named.get("self", named.get("input"))
    return (None if given is None or named.get("scale_factors") is not None else source), given, copies.value


def operators(graph: torch.fx.Graph) -> list[Any]:
    """Return the operators of a graph that always count in a comparison: no views, copies, padding or numbers."""
    called = (node.target for node in graph.nodes if node.op == "call_function")
    return [target for target in called if _always_counts(target)]


@functools.cache
def _always_counts(target: Any) -> bool:
    schema = schemas.schema_of(target)
    if schema is None or not any("Tensor" in str(given.type) for given in schema.returns):
        return False
    return not schemas.is_view_operator(target, pure=True) and known_of(target).copies is None


def calls_of(graph: torch.fx.Graph, *targets: Any) -> list[torch.fx.Node]:
    """Return the calls of some functions, in the order of the graph."""
    return [node for node in graph.nodes if node.op == "call_function" and node.target in targets]


def calls_in(module: torch.fx.GraphModule, *targets: Any) -> list[torch.fx.Node]:
    """Return the calls of some functions in a graph and its bodies."""
    return [node for each in graph_modules(module) for node in calls_of(each.graph, *targets)]


def input_nodes(graph: torch.fx.Graph, count: int) -> list[torch.fx.Node]:
    """Return the placeholders of the flat inputs, which follow those of parameters and buffers."""
    placeholders = graph.find_nodes(op="placeholder")
    return list(placeholders[len(placeholders) - count :])


def call_before(before: torch.fx.Node, target: Callable[..., Any], *args: Any) -> Any:
    """Return the node of a call, inserted before a node, or the value if no argument is a node."""
    plain = not any(isinstance(arg, torch.fx.Node) for arg in args)
    return target(*args) if plain else insert_call(before, target, args)


def insert_call(
    before: torch.fx.Node, target: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any] | None = None
) -> torch.fx.Node:
    """Insert a call on nodes and numbers, with the metadata that torch's verifier and serializer expect."""
    with before.graph.inserting_before(before):
        node = before.graph.call_function(target, tuple(args), dict(kwargs or {}))
    _describe(node, target, list(map(metadata, args)))
    return node


def call_beside(node: torch.fx.Node, target: Callable[..., Any], *args: Any) -> Any:
    """Return the node of a call on numbers, inserted before a node as a part of it, or the value if all are plain."""
    if not any(isinstance(arg, torch.fx.Node) for arg in args):
        return target(*args)
    with node.graph.inserting_before(node):
        made = node.graph.call_function(target, args)
    made.meta = {**node.meta, "val": target(*map(metadata, args))}
    return made


def become(node: torch.fx.Node, made: torch.fx.Node, apart: Sequence[torch.fx.Node]) -> None:
    """Make a node the call that a new node is; some users, set apart, use a copy of what it was. Its name stays."""
    if apart:
        with node.graph.inserting_before(node):
            copy = node.graph.node_copy(node)
        for user in apart:
            user.replace_input_with(node, copy)
    node.target, node.args = made.target, made.args
    node.graph.erase_node(made)


def _describe(node: torch.fx.Node, target: Callable[..., Any], values: Sequence[Any]) -> None:
    gives_nothing = not getattr(schemas.schema_of(target), "returns", True)
    read = known_of(target).reads or target
    node.meta["val"] = None if gives_nothing else read(*values)
    node.meta["stack_trace"] = ""
    node.meta["nn_module_stack"] = _root_stack(node.graph)


def _root_stack(graph: torch.fx.Graph) -> dict[str, Any]:
    """Return the module stack of a node in the outermost module: its path is empty. Nodes of torch may lie in none."""
    stacks = (node.meta.get("nn_module_stack") or {} for node in graph.nodes if node.op == "call_function")
    outermost = (item for stack in stacks for item in stack.items() if not item[1][0])
    return dict([next(outermost, ("L__self__", ("", "torch.nn.Module")))])
