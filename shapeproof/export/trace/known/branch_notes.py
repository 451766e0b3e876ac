"""Write the tensor sizes that hold on the whole domain into the metadata of torch.cond's branches.

Dynamo traces a branch at the example and guards the answers. Behind the guard `n >= 5` it notes `y[:5]` as `[5]`, and
where `n < 5` as `[n]`. The code is the same, each note is right on one side only, and compilers rely on the notes. So
each branch is run again after it is traced, and its views get the sizes that hold in the whole domain: `[min(5, n)]`.

The trace records every assumption: a new question goes to the trial like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from shapeproof.export.graph import nodes
from shapeproof.export.ops import schemas
from shapeproof.export.ops.table import known_of
from shapeproof.export.shim.numbers.symbols import ASSERTION
from shapeproof.export.shim.replaced import replaced
from shapeproof.export.trace.shape_env import ProofShapeEnv

_COND = torch.ops.higher_order.cond


def note_branches(program: torch.export.ExportedProgram, env: ProofShapeEnv) -> None:
    """Note the results of a program's branches, computed from their operands' metadata, under its FakeTensorMode."""
    with replaced(env.trial.shared, views=env.trial.known):  # views are written as on the whole domain
        _note_branches(program.graph_module, {node: node.meta.get("val") for node in program.graph.nodes}, env)


def _note_branches(module: torch.fx.GraphModule, values: dict[torch.fx.Node, Any], env: ProofShapeEnv) -> None:
    for call in module.graph.find_nodes(op="call_function", target=_COND):
        _, taken, other, operands = call.args
        given = torch.fx.map_arg(operands, values.__getitem__)
        for branch in (taken, other):
            _note(getattr(module, str(branch.target)), given, env)


def _note(branch: torch.fx.GraphModule, operands: Sequence[Any], env: ProofShapeEnv) -> None:
    """Note the results of a branch if all of its operators return the same when they are run again."""
    values: dict[torch.fx.Node, Any] = {}
    given = iter(operands)
    before, writes = (
        env.brought,
        nodes.mutates(branch.graph),
    )  # an operator that mutates is not run: the notes of other nodes would change
    for node in branch.graph.nodes:
        if node.op == "placeholder":
            values[node] = next(given)
        elif node.op == "call_function" and not writes and _runs_again(node):
            args, kwargs = torch.fx.map_arg((node.args, node.kwargs), values.__getitem__)
            values[node] = env.operators.record(node.target, args, kwargs)
        else:
            values[node] = node.meta.get("val")
    made = {
        node: value for node, value in values.items() if isinstance(value, torch.Tensor) and node.op != "placeholder"
    }
    if env.brought == before and all(map(_is_alike, made, made.values())):
        for node, value in made.items():
            node.meta["val"] = value
    _note_branches(branch, values, env)


def _is_alike(node: torch.fx.Node, value: torch.Tensor) -> bool:
    """True if a tensor equals a node's metadata except in sizes.

    The two differ if a mode was active while the branch was traced and is off now.
    """
    noted = node.meta.get("val")
    return isinstance(noted, torch.Tensor) and all(
        getattr(noted, name) == getattr(value, name) for name in ("dtype", "device", "layout", "requires_grad", "ndim")
    )


def _runs_again(node: torch.fx.Node) -> bool:
    """True if an operator returns the same when it is run again, and checks nothing."""
    taken = node.meta.get("unbacked_bindings") and known_of(node.target).view is None
    return not schemas.is_higher_order(node.target) and not taken and node.target is not ASSERTION
