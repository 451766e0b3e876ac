"""Writes a program in core operators with those that runtimes can take at every size.

ExecuTorch's verifier admits Python's own operators on numbers, and no function of torch: `torch.sym_float(n)` is
`n / 1`, which is the same double, and the bounds of a slice are left to the slice (clamps.py). It also counts the rows
of the first piece of a split, which makes one number of a size: each piece is a slice of its own instead. What a
runtime does not have at all (`math.sqrt`, the larger of two sizes) stays as it is.
"""

from __future__ import annotations

import itertools
import operator
from typing import Any

import torch

from shapeproof.export.build.clamps import remove_clamps
from shapeproof.export.ops import schemas
from shapeproof.solver.facts import Facts

_SPLIT = torch.ops.aten.split_with_sizes.default
_SLICE = torch.ops.aten.slice.Tensor


def write_core(program: torch.export.ExportedProgram, facts: Facts) -> None:
    """Rewrite operators of a program that was taken apart.

    Args:
        program: changed in place.
        facts: what holds of every input that it takes.
    """
    remove_clamps(program, facts)
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            for node in module.graph.find_nodes(op="call_function", target=torch.sym_float):
                _divide_by_one(node)
            for node in module.graph.find_nodes(op="call_function", target=_SPLIT):
                _slice_each(node)
            module.recompile()


def _divide_by_one(node: torch.fx.Node) -> None:
    """`float(n)` of a size as `n / 1`."""
    number = node.args[0]
    if isinstance(number, torch.fx.Node) and isinstance(number.meta.get("val"), torch.SymInt):
        node.target, node.args = operator.truediv, (number, 1)


def _slice_each(split: torch.fx.Node) -> None:
    """A split into pieces of constant sizes, whose first size is none, as one slice for each piece."""
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
