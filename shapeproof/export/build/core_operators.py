"""Writes a program in core operators with those of numbers that runtimes have.

ExecuTorch's verifier admits Python's own operators on numbers, and no function of torch: `torch.sym_float(n)` is
`n / 1`, which is the same double, and the bounds of a slice are left to the slice (clamps.py). What a runtime does not
have at all (`math.sqrt`, the larger of two sizes) stays as it is.
"""

from __future__ import annotations

import operator

import torch

from shapeproof.export.build.clamps import remove_clamps
from shapeproof.solver.facts import Facts


def write_core(program: torch.export.ExportedProgram, facts: Facts) -> None:
    """Rewrite the operators on numbers of a program that was taken apart.

    Args:
        program: changed in place.
        facts: what holds of every input that it takes.
    """
    remove_clamps(program, facts)
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            for node in module.graph.find_nodes(op="call_function", target=torch.sym_float):
                if isinstance(node.args[0], torch.fx.Node) and isinstance(node.args[0].meta.get("val"), torch.SymInt):
                    node.target, node.args = operator.truediv, (node.args[0], 1)
            module.recompile()
