"""Decides if a program depends on whether operators such as `contiguous` shared their operand's storage or copied it.

The choice depends on sizes. It matters if the operand or the result is mutated later while the other is still read or
is an input. Compilers functionalize a program first, by the aliasing in its graph's metadata; the result is right only
at sizes for which the metadata holds. This analysis reads the graph only, and no sizes.

Also finds the results whose layout a program can tell, of operators that share memory at some sizes and copy at others.

`reshape` of an expanded tensor is a view where a size is 1, with the stride 0, and a copy elsewhere. The graph has the
operator itself, so the program does at every size what eager does there, unless something later goes by strides or
offsets: it raises, writes, has results of other sizes, or returns the tensor to the caller.

Law: an operator that is not known to go by the sizes of its operands alone is taken to go by their layout.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import torch

from shapeproof.export.graph import nodes
from shapeproof.export.ops import schemas
from shapeproof.export.ops.shapes.shape_functions import Layout
from shapeproof.export.ops.table import goes_by_sizes, kind_of, known_of
from shapeproof.export.shim.numbers import symbols
from shapeproof.export.shim.storages import storages
from shapeproof.export.shim.trees import leaves


def observes_aliasing(graph: torch.fx.Graph, *, asked: bool = False) -> bool:
    """True if the graph can observe whether some operator shared storage or copied; if `asked`, its model can.

    The body of a higher-order operator is not analysed: a body that mutates anything counts as an observer, and a call
    whose body has an operator that shares or copies counts as such an operator.
    """
    if any(map(nodes.body_writes, graph.find_nodes(op="get_attr"))):
        return True
    if asked and any(map(may_share, graph.nodes)):
        return True
    writes = {index: found for index, node in enumerate(graph.nodes) if (found := nodes.changed_operands(node))}
    if not writes:
        return False
    watched = _Watched(graph, writes)
    return any(watched.tells(at, node) for at, node in enumerate(graph.nodes) if may_share(node))


def may_share(node: torch.fx.Node) -> bool:
    """True if a call shares storage with its operand or copies it, or if the body of a higher-order operator may."""
    inside = (each for body in nodes.bodies(node) for each in body.graph.nodes)
    return known_of(node.target).alias_or_copy or any(map(may_share, inside))


def written_inputs(graph: torch.fx.Graph) -> set[torch.fx.Node]:
    """Return the placeholders whose storage the graph mutates; all of them if a body mutates anything."""
    inputs = graph.find_nodes(op="placeholder")
    if any(map(nodes.body_writes, graph.find_nodes(op="get_attr"))):
        return set(inputs)
    written = set[Any]()
    for node in graph.nodes:
        for operand in nodes.changed_operands(node):
            written.update(_stored(operand))
    return {node for node in inputs if not written.isdisjoint(_stored(node))}


def writes_said(graph: torch.fx.Graph) -> str | None:
    """Describe a write that rows cannot be traced through: into an input, or through a view; None if there is none."""
    for written in written_inputs(graph):
        into = set(_stored(written))
        writing = ((node, each) for node in graph.nodes for each in nodes.changed_operands(node))
        by = next((node for node, each in writing if into.intersection(_stored(each))), None)
        return f"writes into `{written.name}`" + (f", by {nodes.said(by)}," if by else "")
    through = _written_in_part(graph)
    return None if through is None else f"writes through a view, by {nodes.said(through)},"


def _written_in_part(graph: torch.fx.Graph) -> torch.fx.Node | None:
    """Return the first node that mutates a tensor whose storage is seen, until then, with other sizes or strides."""
    seen: dict[Any, set[Any]] = {}
    for node in graph.nodes:
        changed = {storage for each in nodes.changed_operands(node) for storage in _stored(each)}
        if any(len(seen[storage]) > 1 for storage in changed):
            return node
        for value in leaves(node.meta.get("val")):
            for storage in storages([value]):
                lies = tuple(map(str, (value.shape, value.stride(), value.storage_offset())))
                seen.setdefault(storage, set()).add(lies)
    return None


class _Watched:
    """A graph, its mutations, and the storages of each node's tensors."""

    def __init__(self, graph: torch.fx.Graph, writes: Mapping[int, Collection[torch.fx.Node]]) -> None:
        self._order = list(graph.nodes)
        self._writes = writes
        self._at: Mapping[torch.fx.Node, set[Any]] = {node: set(_stored(node)) for node in self._order}

    def tells(self, at: int, node: torch.fx.Node) -> bool:
        """True if one side of an operator is mutated later while the other side is still visible.

        Results of a body may share with each other, too: a mutation of any counts.
        """
        given = set[Any]().union(*(self._at[operand] for operand in node.all_input_nodes))
        result = self._by_way_of(at, node)
        others = {each for each in self._order if each not in result and not given.isdisjoint(self._at[each])}
        seen_anyway = bool(nodes.bodies(node)) or any(each.op in {"placeholder", "get_attr"} for each in others)
        written = self._written(at, result)
        if written is not None and (seen_anyway or self._read(written, others)):
            return True
        written = self._written(at, others)
        return written is not None and self._read(written, result)

    def _by_way_of(self, at: int, node: torch.fx.Node) -> set[torch.fx.Node]:
        """Return the nodes that see the storage of a result through this result."""
        found = {node}
        for later in self._order[at + 1 :]:
            if not self._at[node].isdisjoint(self._at[later]) and not found.isdisjoint(later.all_input_nodes):
                found.add(later)
        return found

    def _written(self, at: int, values: Collection[torch.fx.Node]) -> int | None:
        """Return the position of the first later mutation of these nodes; None if there is none."""
        return min(
            (index for index, into in self._writes.items() if index > at and set(into) & set(values)), default=None
        )

    def _read(self, at: int, values: Collection[torch.fx.Node]) -> bool:
        """True if a later node reads or returns one of these nodes."""
        return any(operand in values for later in self._order[at + 1 :] for operand in later.all_input_nodes)


_RANKS_OF_IMAGES = (4, 5)
"""Only a joined tensor of these ranks may be laid as its operands are, with its channels last."""


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
            for storage in _stored(node):
                reaching[storage] = reaching.get(storage, set()) | found
    return told


def tells_inputs_apart(program: torch.export.ExportedProgram, copies: Iterable[torch.fx.Node]) -> bool:
    """True if something may tell how a copy lies, and that depends on how an input lies.

    Where the model copies nothing, its tensor lies as the input does: as the copy, if the input lies as the example.
    """
    copied = takes_layouts(program).intersection(copies)
    return bool(told_layouts(program.graph, {storage for node in copied for storage in _stored(node)}))


def takes_layouts(program: torch.export.ExportedProgram) -> set[torch.fx.Node]:
    """Return the nodes that take a tensor which lies in memory as an input does, as far as is known."""
    inputs = set(program.graph_signature.user_inputs)
    laid = set[Any]()

    def takes(node: torch.fx.Node) -> bool:
        return any(laid.intersection(_stored(each)) for each in node.all_input_nodes)

    for node in program.graph.nodes:
        if (takes(node) and not _lies_row_by_row(node)) or (node.op == "placeholder" and node.name in inputs):
            laid.update(_stored(node))
    return set(filter(takes, program.graph.nodes))


def _stored(node: torch.fx.Node) -> list[Any]:
    return storages(node.meta.get("val"))


def _reaching(node: torch.fx.Node, reaching: dict[Any, set[Any]]) -> set[Any]:
    """Return the storages whose layout may determine that of a node's tensors."""
    return set[Any]().union(*(reaching.get(storage, set()) for storage in _stored(node)))


def _goes_by_sizes(node: torch.fx.Node) -> bool:
    """True if the sizes of a call's operands determine, whatever their layout, if it raises and the sizes it gives."""
    if node.target is operator.getitem:
        return True
    if node.target is symbols.KIND_ASSERTION:  # of a dtype, say
        return nodes.arguments(node)["stride"] is None
    target: Any = node.target
    known = known_of(target)
    if known.as_asked and not known.alias_or_copy:  # one dimension, of whatever stride, can be split
        return bool(nodes.metadata(node.args[0]).dim() <= 1)
    if getattr(target, "namespace", None) != "aten" or known.reads_layout or known.reads_beyond or known.resizes:
        return False
    said = known.values or known.shape or known.order or known.view or known.alias_or_copy or known.reads
    return bool(said) or goes_by_sizes(target)


def _lies_row_by_row(node: torch.fx.Node) -> bool:
    """True if the result of a call is new and contiguous, however its operands lie."""
    if kind_of(node.target) in {"cat", "stack"}:
        return nodes.metadata(node).dim() not in _RANKS_OF_IMAGES
    rule = known_of(node.target).shape
    return rule is not None and rule.layout is Layout.NONE
