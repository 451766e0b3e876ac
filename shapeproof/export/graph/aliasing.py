"""Does it matter to a program whether `contiguous` and its like have shared storage with their operand, or copied it?

Which of the two they do depends on sizes. It matters where one side is written into afterwards and the other is still
read, or is an input. Whoever compiles a program makes it functional first, by what is noted in its graph: then it is
only right at sizes at which they do what is noted. Nothing is run here, and no sizes are looked at.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import torch

from shapeproof.export.graph import nodes
from shapeproof.export.ops import schemas
from shapeproof.export.shim.storages import storages
from shapeproof.export.shim.trees import leaves


def told_apart(graph: torch.fx.Graph) -> bool:
    """Whether anything in a graph can tell if an operator has shared or copied.

    The body of a higher-order operator is not looked into: where it writes, it may be anything.
    """
    if any(map(nodes.body_writes, graph.find_nodes(op="get_attr"))):
        return True
    writes = {index: found for index, node in enumerate(graph.nodes) if (found := nodes.changed_operands(node))}
    if not writes:
        return False
    watched = _Watched(graph, writes)
    return any(watched.tells(at, node) for at, node in enumerate(graph.nodes) if schemas.copies_or_views(node.target))


def written_inputs(graph: torch.fx.Graph) -> set[torch.fx.Node]:
    """The placeholders of a graph whose memory it writes into; all of them where a body writes, which is not read."""
    inputs = graph.find_nodes(op="placeholder")
    if any(map(nodes.body_writes, graph.find_nodes(op="get_attr"))):
        return set(inputs)
    written = set[Any]()
    for node in graph.nodes:
        for operand in nodes.changed_operands(node):
            written.update(storages(operand.meta.get("val")))
    return {node for node in inputs if not written.isdisjoint(storages(node.meta.get("val")))}


def writes_said(graph: torch.fx.Graph) -> str | None:
    """What a program does that writes where rows cannot be told apart: into an input, or through a view."""
    for node in written_inputs(graph):
        return f"writes into `{node.name}`"
    through = _written_in_part(graph)
    return None if through is None else f"writes through a view (`{through.name}`)"


def _written_in_part(graph: torch.fx.Graph) -> torch.fx.Node | None:
    """The first node that writes into a tensor whose memory another one sees through other sizes or strides."""
    seen: dict[Any, set[Any]] = {}
    for node in graph.nodes:
        for value in leaves(node.meta.get("val")):
            for storage in storages([value]):
                seen.setdefault(storage, set()).add(_lies(value))
    writing = ((node, each) for node in graph.nodes for each in nodes.changed_operands(node))
    return next((node for node, each in writing if any(len(seen[s]) > 1 for s in storages(each.meta.get("val")))), None)


def _lies(tensor: torch.Tensor) -> Any:
    """How a tensor lies in its memory, as it is written."""
    return tuple(map(str, (tensor.shape, tensor.stride(), tensor.storage_offset())))


class _Watched:
    """A graph, who writes where in it, and the storages that each node's tensors lie in."""

    def __init__(self, graph: torch.fx.Graph, writes: Mapping[int, Collection[torch.fx.Node]]) -> None:
        self._order = list(graph.nodes)
        self._writes = writes
        self._at: Mapping[torch.fx.Node, set[Any]] = {node: set(storages(node.meta.get("val"))) for node in self._order}

    def tells(self, at: int, node: torch.fx.Node) -> bool:
        """Whether either side of an operator is written into afterwards, and the other can be seen then."""
        given = set[Any]().union(*(self._at[operand] for operand in node.all_input_nodes))
        result = self._by_way_of(at, node)
        others = {each for each in self._order if each not in result and not given.isdisjoint(self._at[each])}
        is_input = any(each.op in {"placeholder", "get_attr"} for each in others)
        written = self._written(at, result)
        if written is not None and (is_input or self._read(written, others)):
            return True
        written = self._written(at, others)
        return written is not None and self._read(written, result)

    def _by_way_of(self, at: int, node: torch.fx.Node) -> set[torch.fx.Node]:
        """What sees the storage of a result by way of it."""
        found = {node}
        for later in self._order[at + 1 :]:
            if not self._at[node].isdisjoint(self._at[later]) and not found.isdisjoint(later.all_input_nodes):
                found.add(later)
        return found

    def _written(self, at: int, values: Collection[torch.fx.Node]) -> int | None:
        """Where one of these is written into first, after an operator."""
        return min(
            (index for index, into in self._writes.items() if index > at and set(into) & set(values)), default=None
        )

    def _read(self, at: int, values: Collection[torch.fx.Node]) -> bool:
        """Whether one of these is read after an operator, or returned."""
        return any(operand in values for later in self._order[at + 1 :] for operand in later.all_input_nodes)
