"""Calls without effect on a region: what they return and write has no elements there, or is used by such calls alone.

`if x.shape[0] == 0: return x.new_zeros(0, 5)` is what a program without this branch does, too: a tensor without
elements is its sizes, dtype and device. Only a gradient tells how it was computed: that of a parameter is zeros in one
program, and None in the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from shapeproof.export.graph import nodes
from shapeproof.export.ops import schemas
from shapeproof.export.ops.table import known_of
from shapeproof.export.shim.numbers import symbols
from shapeproof.export.shim.trees import leaves
from shapeproof.export.trace.checks.failures import may_fail


def idle(
    graph: torch.fx.Graph, value: Callable[[torch.fx.Node], Any], has_none: Callable[[Any], bool]
) -> frozenset[torch.fx.Node]:
    """Return the calls without effect where the nodes have these values; `has_none`: a tensor has no elements there."""
    found: set[torch.fx.Node] = set()
    for node in reversed(graph.nodes):
        if not _is_harmless(node, value):
            continue
        written = [value(each) for each in nodes.changed_operands(node)]
        made = [*leaves(value(node)), *written]
        if all(map(has_none, made)) or (not written and found.issuperset(node.users)):
            found.add(node)
    return frozenset(found)


def _is_harmless(node: torch.fx.Node, value: Callable[[torch.fx.Node], Any]) -> bool:
    """True if a call makes tensors, writes elements at most, and neither raises nor draws random numbers."""
    target: Any = node.target
    made = leaves(value(node))
    if schemas.schema_of(target) is None or not made or node.meta.get("unbacked_bindings"):
        return False
    known = known_of(target)
    demanding = known.needs_element or known.divides_by or known.divides_by_all or known.least_rank is not None
    at_odds = known.wrong_when_empty or known.rejects_itself or known.statistics or known.resizes
    writing = schemas.is_mutable(target) and not schemas.only_writes(target)
    drawing = torch.Tag.nondeterministic_seeded in target.tags
    if demanding or at_odds or writing or drawing or not all(isinstance(each, torch.Tensor) for each in made):
        return False
    args, kwargs = torch.fx.map_arg((node.args, node.kwargs), value)
    return not may_fail(target, args, kwargs, symbols.about_data)
