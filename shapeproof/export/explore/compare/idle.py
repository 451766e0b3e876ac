"""Calls without effect on a region: what they return and write has no elements there, or is used by such calls alone.

`if x.shape[0] == 0: return x.new_zeros(0, 5)` is what a program without this branch does, too: a tensor without
elements is its sizes, dtype and device. Only a gradient tells how it was computed: that of a parameter is zeros in one
program, and None in the other.

Some kernels raise where there is no element along a dim, and their fakes do not. A run at one point of the region shows
it for all, if each dim has elements everywhere on the region, or has one size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from shapeproof.export.graph import nodes
from shapeproof.export.ops import schemas
from shapeproof.export.ops.table import known_of
from shapeproof.export.shim.numbers import symbols
from shapeproof.export.shim.trees import leaves
from shapeproof.export.trace.checks.failures import may_fail

if TYPE_CHECKING:
    from shapeproof.export.explore.compare.operations import Side


def idle(there: Side) -> frozenset[torch.fx.Node]:
    """Return the calls of a program without effect on a region."""
    found: set[torch.fx.Node] = set()
    for node in reversed(there.graph.nodes):
        made = leaves(there.value(node))
        written = [there.value(each) for each in nodes.changed_operands(node)]
        unread = not written and found.issuperset(node.users)
        if (unread or all(has_none(each, there) for each in (*made, *written))) and _is_harmless(node, made, there):
            found.add(node)
    return frozenset(found)


def has_none(tensor: Any, there: Side) -> bool:
    """True if a tensor has no elements on a region."""
    strided = isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided
    return strided and any(there.one_value(size) == 0 for size in tensor.shape)


def _is_harmless(node: torch.fx.Node, made: Sequence[Any], there: Side) -> bool:
    """True if a call makes tensors, writes elements at most, and neither raises nor draws random numbers."""
    target: Any = node.target
    if schemas.schema_of(target) is None or not made or node.meta.get("unbacked_bindings"):
        return False
    known = known_of(target)
    at_odds = known.wrong_when_empty or known.rejects_itself or known.statistics or known.resizes
    dividing = known.divides_by or known.divides_by_all or known.least_rank is not None
    writing = schemas.is_mutable(target) and not schemas.only_writes(target)
    drawing = torch.Tag.nondeterministic_seeded in target.tags
    if at_odds or dividing or writing or drawing or not all(isinstance(each, torch.Tensor) for each in made):
        return False
    args, kwargs = torch.fx.map_arg((node.args, node.kwargs), there.value)
    if known.needs_element == "dim":
        named = schemas.by_name(target, args, kwargs)
        sizes = named["self"].shape
        return not sizes or (there.one_value(sizes[named["dim"]]) or 0) > 0  # a number is an element
    return not may_fail(target, args, kwargs, symbols.about_data) and _is_same_everywhere(target, (args, made), there)


def _is_same_everywhere(target: Any, tensors: Any, there: Side) -> bool:
    """True if an operator that looks at sizes finds no elements along the same dims at all points of a region."""
    if torch.Tag.pointwise in target.tags or schemas.is_view_operator(target, pure=True):
        return True
    sizes = (size for each in leaves(tensors) if isinstance(each, torch.Tensor) for size in each.shape)
    return all(there.one_value(size) is not None or there.sizes.at_least(size, 1) for size in sizes)
