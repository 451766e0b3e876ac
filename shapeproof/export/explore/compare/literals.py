"""Integers that a model writes into tensors: `t[0] = x.shape[2]`.

Torch records `scalar_tensor` of a size, and where the domain leaves the size one value, a lifted constant: 4. Compared
with the other program, that is `scalar_tensor` of 4.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

import torch
from torch.export.graph_signature import InputKind

from shapeproof.export.explore.compare.bodies import copied_graph

_INTEGERS = (torch.int64, torch.int32)
_LIFT = torch.ops.aten.lift_fresh_copy.default


def written_out(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Return the program, or a copy in which each lifted integer is made where it is used."""
    lifted = dict(_lifted(program))
    if not lifted:
        return program
    made, signature = copy.copy(program), copy.copy(program.graph_signature)
    module = copied_graph(program.graph_module)
    for node in [node for node in module.graph.nodes if node.name in lifted]:
        constant = lifted[node.name]
        for lift in list(node.users):
            kind = {"dtype": constant.dtype, "layout": constant.layout, "device": constant.device}
            lift.target, lift.args, lift.kwargs = torch.ops.aten.scalar_tensor.default, (int(constant),), kind
        module.graph.erase_node(node)
    signature.input_specs = [spec for spec in signature.input_specs if spec.arg.name not in lifted]
    made._graph_module, made._graph_signature = module, signature  # noqa: SLF001 - as in bodies.py
    return made


def _lifted(program: torch.export.ExportedProgram) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the integers that are only lifted, by the names of their placeholders."""
    named = {node.name: node for node in program.graph.find_nodes(op="placeholder")}
    for spec in program.graph_signature.input_specs:
        value = program.constants.get(str(spec.target)) if spec.kind is InputKind.CONSTANT_TENSOR else None
        if not isinstance(value, torch.Tensor) or value.dim() > 0 or value.dtype not in _INTEGERS:
            continue
        if all(user.target is _LIFT for user in named[spec.arg.name].users):
            yield spec.arg.name, value
