"""Check reductions that need at least one element: `x.max(0)` of no rows.

Torch traces such a reduction at any size; eager raises if there is no element.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.export.ops import schemas
from shapeproof.export.trace import tracer

_ALONG = frozenset(f"aten.{name}" for name in ("max.dim", "min.dim", "median.dim", "nanmedian.dim", "mode.default"))
"""Operators that reduce along a dimension, whose fake kernel does not check for an element."""
_OF_ALL = frozenset({"aten.max.default", "aten.min.default"})
"""Operators that reduce all elements to one."""


def requirements(program: torch.export.ExportedProgram) -> Iterator[tuple[torch.fx.Node, Formula]]:
    """Yield for each reduction the condition on sizes under which an element exists."""
    for node in program.graph.nodes:
        if str(node.target) in _ALONG | _OF_ALL:
            named = schemas.by_name(node.target, node.args, node.kwargs)
            shape = named["self"].meta["val"].shape
            sizes = shape if str(node.target) in _OF_ALL else shape[named["dim"] :][:1]
            env = tracer.shape_env_of(program)
            yield node, f.conjunction(*(f.ge(env.read(size), 1) for size in sizes))
