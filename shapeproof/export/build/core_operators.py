"""Rewrites a program in core operators by operators that runtimes support at every size.

ExecuTorch's verifier admits Python's operators on numbers, and no torch functions. `torch.sym_float(n)` becomes
`n / 1`, which is the same double, and slices clamp their bounds themselves (clamps.py). The verifier also counts the
rows of the first piece of a split, which specializes a size; each piece becomes a separate slice instead. Operators
that a runtime lacks altogether stay (`math.sqrt`, the larger of two sizes).
"""

from __future__ import annotations

import itertools
import operator
from typing import Any

import torch

from shapeproof.export.build.clamps import remove_clamps
from shapeproof.export.ops import schemas
from shapeproof.export.shim.trees import graph_modules
from shapeproof.solver.facts import Facts

_SPLIT = torch.ops.aten.split_with_sizes.default
_SLICE = torch.ops.aten.slice.Tensor


def write_core(program: torch.export.ExportedProgram, facts: Facts) -> None:
    """Rewrite the operators of a decomposed program.

    Args:
        program: modified in place.
        facts: the facts that hold for every input of the program.
    """
    remove_clamps(program, facts)
    for module in graph_modules(program.graph_module):
        for node in module.graph.find_nodes(op="call_function", target=torch.sym_float):
            _divide_by_one(node)
        for node in module.graph.find_nodes(op="call_function", target=_SPLIT):
            _slice_each(node)
        module.recompile()


def _divide_by_one(node: torch.fx.Node) -> None:
    """Rewrite `float(n)` of a size as `n / 1`."""
    number = node.args[0]
    if isinstance(number, torch.fx.Node) and isinstance(number.meta.get("val"), torch.SymInt):
        node.target, node.args = operator.truediv, (number, 1)


def _slice_each(split: torch.fx.Node) -> None:
    """Rewrite a split as one slice per piece, if the lengths are constant and the first dimension is dynamic."""
    named = schemas.by_name(split.target, split.args, split.kwargs)
    pieces, sizes = split.meta["val"], named["split_sizes"]
    users = list(split.users)
    if not all(isinstance(size, int) for size in sizes) or all(isinstance(each.shape[0], int) for each in pieces):
        return
    if any(user.target is not operator.getitem for user in users):
        return
    ends = list(itertools.accumulate(sizes))
    for user in users:
        index: Any = user.args[1]
        user.target = _SLICE
        user.args = (named["self"], named["dim"], ends[index] - sizes[index], ends[index], 1)
    split.graph.erase_node(split)
