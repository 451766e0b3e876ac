"""Finds the results whose layout a program can tell, of operators that share memory at some sizes and copy at others.

`reshape` of an expanded tensor is a view where a size is 1, with the stride 0, and a copy elsewhere. The graph has the
operator itself, so the program does at every size what eager does there, unless something later goes by strides or
offsets: it raises, writes, has results of other sizes, or returns the tensor to the caller.

Law: an operator that is not known to go by the sizes of its operands alone is taken to go by their layout.
"""

from __future__ import annotations

import operator
from collections.abc import Collection
from typing import Any

import torch

from shapeproof.export.graph import nodes
from shapeproof.export.ops import schemas
from shapeproof.export.ops.shapes.shape_functions import Layout
from shapeproof.export.ops.table import known_of
from shapeproof.export.shim.storages import storages

_aten = torch.ops.aten
_JOINING = frozenset({_aten.cat.default, _aten.stack.default})
_RANKS_OF_IMAGES = (4, 5)
"""Only a joined tensor of these ranks may be laid as its operands are, with its channels last."""
_GOING_BY_SIZES = """
    bmm chunk copy_ einsum expand expand_as matmul mean meshgrid movedim narrow repeat_interleave split
    split_with_sizes squeeze sum_to_size sym_numel sym_size t tile unbind
"""
_BY_SIZES = frozenset(_GOING_BY_SIZES.split())
"""Operators that go by the sizes of their operands, besides those of which the table or a tag of torch says so."""


def told_layouts(graph: torch.fx.Graph, relaid: Collection[Any]) -> set[Any]:
    """Return those of the storages, of results whose layout depends on sizes, where that makes a difference.

    It is not followed into the bodies of higher-order operators: a program with one can tell all layouts.
    """
    if any(schemas.is_higher_order(node.target) for node in graph.nodes):
        return set(relaid)
    told = set[Any]()
    reaching = {storage: {storage} for storage in relaid}
    for node in graph.nodes if relaid else ():
        found = set[Any]().union(*(_reaching(operand, reaching) for operand in node.all_input_nodes))
        written = nodes.changed_operands(node)
        if not _goes_by_sizes(node) or any(_reaching(each, reaching) for each in written):
            told |= found
        elif found and not (written or _lies_row_by_row(node)):
            for storage in storages(node.meta.get("val")):
                reaching[storage] = reaching.get(storage, set()) | found
    return told


def _reaching(node: torch.fx.Node, reaching: dict[Any, set[Any]]) -> set[Any]:
    """Return the storages whose layout may determine that of a node's tensors."""
    return set[Any]().union(*(reaching.get(storage, set()) for storage in storages(node.meta.get("val"))))


def _goes_by_sizes(node: torch.fx.Node) -> bool:
    """True if the sizes of a call's operands determine, whatever their layout, if it raises and the sizes it gives."""
    if node.target is operator.getitem:
        return True
    if node.target is _aten.view.default:  # one dimension, of whatever stride, can be split
        return bool(nodes.metadata(node.args[0]).dim() <= 1)
    target: Any = node.target
    known = known_of(target)
    if getattr(target, "namespace", None) != "aten" or known.reads_layout or known.reads_beyond or known.resizes:
        return False
    said = known.values or known.shape or known.order or known.view or known.alias_or_copy or known.elementwise
    return bool(said) or torch.Tag.pointwise in target.tags or target.overloadpacket.__name__ in _BY_SIZES


def _lies_row_by_row(node: torch.fx.Node) -> bool:
    """True if the result of a call is new and contiguous, however its operands lie."""
    if node.target in _JOINING:
        return nodes.metadata(node).dim() not in _RANKS_OF_IMAGES
    rule = known_of(node.target).shape
    return rule is not None and rule.layout is Layout.NONE
