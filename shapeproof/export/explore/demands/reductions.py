"""Reductions that must give an element, held against how many there are: `x.max(0)` of no rows.

torch traces them whatever the sizes are; eager raises where there is nothing to give. Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.export.ops import schemas
from shapeproof.export.trace import tracer

_ALONG = frozenset(f"aten.{name}" for name in ("max.dim", "min.dim", "median.dim", "nanmedian.dim", "mode.default"))
"""Operators that give an element along a dimension, and whose fake form does not ask whether there is one."""
_OF_ALL = frozenset({"aten.max.default", "aten.min.default"})
"""Those that give one of all."""


def requirements(program: torch.export.ExportedProgram) -> Iterator[tuple[torch.fx.Node, Formula]]:
    """For each reduction what must hold of the sizes for there to be an element to give."""
    for node in program.graph.nodes:
        if str(node.target) in _ALONG | _OF_ALL:
            named = schemas.by_name(node.target, node.args, node.kwargs)
            shape = named["self"].meta["val"].shape
            sizes = shape if str(node.target) in _OF_ALL else shape[named["dim"] :][:1]
            env = tracer.shape_env_of(program)
            yield node, f.conjunction(*(f.ge(env.read(size), 1) for size in sizes))
