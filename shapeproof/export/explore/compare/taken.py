"""Replace calls of torch.cond by the branch taken, where the conditions are decided.

The program itself is unchanged; a copy is made for the comparison. The metadata of a call's result moves to the node
that replaces the result, so that a wrong shape in the metadata is still found.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from typing import Any

import torch

_COND = torch.ops.higher_order.cond
Decided = Callable[[Any], bool | None]
"""Returns True if a condition always holds, False if it always fails, None if it depends or is unknown."""


def with_branches_taken(program: torch.export.ExportedProgram, decided: Decided) -> torch.export.ExportedProgram:
    """Return the program, or a copy in which each branch of torch.cond that is always taken replaces the call."""
    if all(_side(call, decided) is None for call in _calls(program.graph)):
        return program
    module = _copied(program.graph_module)
    for call in _calls(module.graph):
        side = _side(call, decided)
        if side is not None:
            _take(module, call, str(call.args[1 if side else 2].target))  # type: ignore[union-attr]
    module.graph.eliminate_dead_code(is_impure_node=torch.fx.Node.is_impure)
    taken = copy.copy(program)
    taken._graph_module = module  # noqa: SLF001 - a copy of torch's own class has no other way
    return taken


def _calls(graph: torch.fx.Graph) -> list[torch.fx.Node]:
    """Return the calls of torch.cond whose results are all read by `getitem`."""
    calls = graph.find_nodes(op="call_function", target=_COND)
    return [call for call in calls if all(user.target is operator.getitem for user in call.users)]


def _side(call: torch.fx.Node, decided: Decided) -> bool | None:
    condition = call.args[0]
    return decided(condition.meta.get("val")) if isinstance(condition, torch.fx.Node) else None


def _copied(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    graph, nodes = torch.fx.Graph(), dict[torch.fx.Node, torch.fx.Node]()
    result = graph.graph_copy(module.graph, nodes)
    graph.output(result)
    (before,), (after,) = (each.find_nodes(op="output") for each in (module.graph, graph))
    after.meta = copy.copy(before.meta)
    return torch.fx.GraphModule(module, graph)


def _take(module: torch.fx.GraphModule, call: torch.fx.Node, branch: str) -> None:
    body: torch.fx.GraphModule = getattr(module, branch)
    known = dict(zip(body.graph.find_nodes(op="placeholder"), call.args[3], strict=True))  # type: ignore[arg-type]
    results: Any = ()
    with module.graph.inserting_before(call):
        for node in body.graph.nodes:
            if node.op == "output":
                results = torch.fx.map_arg(node.args[0], known.__getitem__)
            elif node.op != "placeholder":
                known[node] = module.graph.node_copy(node, known.__getitem__)
            if node.op == "get_attr":
                known[node].target = f"{call.name}_{node.target}"
                setattr(module, known[node].target, getattr(body, str(node.target)))
    for user in list(call.users):
        result = results[user.args[1]]
        result.meta["val"] = user.meta.get("val")
        user.replace_all_uses_with(result)
        module.graph.erase_node(user)
    module.graph.erase_node(call)
