"""A program as it is where its conditions are decided: the branch of torch.cond that is taken stands in for the call.

The program itself is left alone; the copy is made to be compared. What was noted of a result of the call is noted of
what stands for it, so that a shape that is wrong there is still seen to be. Nothing is decided here.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from typing import Any

import torch

_COND = torch.ops.higher_order.cond
Decided = Callable[[Any], bool | None]
"""Whether a condition always holds, or never does; None where it depends, or is not known."""


def with_branches_taken(program: torch.export.ExportedProgram, decided: Decided) -> torch.export.ExportedProgram:
    """The program, or a copy in which each branch of torch.cond that is always taken stands in for the call."""
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
    """The calls of torch.cond whose results are taken one by one."""
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
    """Write the nodes of a branch in place of the call."""
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
