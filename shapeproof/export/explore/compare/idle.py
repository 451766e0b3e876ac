"""Calls without effect on a region: what they return and write has no elements there, or is used by such calls alone.

`if x.shape[0] == 0: return x.new_zeros(0, 5)` is what a program without this branch does, too: a tensor without
elements is its sizes, dtype and device. Only a gradient tells how it was computed: that of a parameter is zeros in one
program, and None in the other.

A call that writes by an index without elements writes nothing: `if rows.numel() == 0: continue` goes around no more.

Some kernels raise where there is no element along a dim, and their fakes do not. A run at one point of the region shows
it for all, if each dim has elements everywhere on the region, or has one size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from shapeproof.export.graph import nodes
from shapeproof.export.ops import schemas
from shapeproof.export.ops.table import kind_of, known_of
from shapeproof.export.shim.numbers import symbols
from shapeproof.export.shim.storages import storages
from shapeproof.export.shim.trees import leaves, tensors_in
from shapeproof.export.trace.checks.failures import may_fail

if TYPE_CHECKING:
    from shapeproof.export.explore.compare.operations import Side


def idle(there: Side, copies: Mapping[torch.fx.Node, torch.fx.Node]) -> frozenset[torch.fx.Node]:
    """Return the calls of a program without effect on a region; a mere copy reads only the operand that it copies."""
    found: set[torch.fx.Node] = set()
    read_by_none: set[torch.fx.Node] = set()
    for node in reversed(there.graph.nodes):
        made = leaves(there.value(node))
        written = [there.value(each) for each in nodes.changed_operands(node)]
        unread = all(
            user in read_by_none or copies.get(user, node) is not node or there.states_the_known(user)
            for user in node.users
        )
        of_none = all(has_none(each, there) for each in (*made, *written)) or (unread and not written)
        harmless = of_none and _is_harmless(node, made, there)
        if harmless or _writes_nowhere(node, there):
            found.add(node)
        if harmless or (node in found and unread):  # what writes nowhere passes its operand on
            read_by_none.add(node)
    return frozenset(found)


def has_none(tensor: Any, there: Side) -> bool:
    """True if a tensor has no elements on a region."""
    strided = isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided
    return strided and any(there.one_value(size) == 0 for size in tensor.shape)


def _writes_nowhere(node: torch.fx.Node, there: Side) -> bool:
    """True if a call writes into a tensor by an index without elements: `y.index_add_(0, rows, x[rows])` of no rows."""
    if not known_of(node.target).rejects_itself:
        return False
    args, kwargs = nodes.operands(node, there.value)
    own, *others = leaves(list(schemas.by_name(node.target, args, kwargs).values()))
    return set(storages(own)).isdisjoint(storages(others)) and _indexes_nothing(node.target, args, kwargs, there)


def _indexes_nothing(target: Any, args: Any, kwargs: Any, there: Side) -> bool:
    """True if an operator reads or writes by an index without elements, of which none is out of range.

    A mask beside it gives as many places as it has true elements, which must fit: that may fail on data.
    """
    known = known_of(target)
    if known.offsets or not (known.index or known.by_position or known.rejects_itself):
        return False
    named = schemas.by_name(target, args, kwargs)
    given = tensors_in(named.get("index", named.get("indices")))
    masks = any(each.dtype in {torch.bool, torch.uint8} for each in given)
    return not masks and any(has_none(each, there) for each in given)


def _is_harmless(node: torch.fx.Node, made: Sequence[Any], there: Side) -> bool:
    """True if a call makes tensors, writes elements at most, and neither raises nor draws random numbers."""
    target: Any = node.target
    if schemas.schema_of(target) is None or not made or node.meta.get("unbacked_bindings"):
        return False
    known = known_of(target)
    updating = schemas.updates_statistics(target, node.args, node.kwargs)
    at_odds = known.wrong_when_empty or known.rejects_itself or updating or known.resizes
    dividing = known.divides_by != () or known.least_rank is not None
    writing = schemas.is_mutable(target) and not schemas.only_writes(target)
    drawing = schemas.is_random(target)
    if at_odds or dividing or writing or drawing or not all(isinstance(each, torch.Tensor) for each in made):
        return False
    args, kwargs = nodes.operands(node, there.value)
    if known.needs_element == "dim":
        named = schemas.by_name(target, args, kwargs)
        sizes = named["self"].shape
        return not sizes or (there.one_value(sizes[named["dim"]]) or 0) > 0  # a number is an element
    if _indexes_nothing(target, args, kwargs, there):
        return known.by_position or _is_same_everywhere(target, (args, made), there)
    return not may_fail(target, args, kwargs, symbols.about_data) and _is_same_everywhere(target, (args, made), there)


def _is_same_everywhere(target: Any, tensors: Any, there: Side) -> bool:
    """True if an operator that looks at sizes finds no elements along the same dims at all points of a region."""
    filled = kind_of(target) in {"constant", "full"}
    if filled or torch.Tag.pointwise in target.tags or schemas.is_view_operator(target, pure=True):
        return True
    sizes = (size for each in tensors_in(tensors) for size in each.shape)
    return all(there.one_value(size) is not None or there.sizes.at_least(size, 1) for size in sizes)
