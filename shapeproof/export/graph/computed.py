"""Recognize the computation of a number in another program: a digest of the operators that lead to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from shapeproof.export.graph import nodes
from shapeproof.files import sha256

_DIGITS = 16


def computation(program: torch.export.ExportedProgram, results: Sequence[torch.fx.Node], use: str = "") -> str:
    """Return a digest of how these nodes are computed, in order, and of their use.

    Buffers and constants count by their values, parameters by their names, since training changes those. Names of other
    nodes, operators that lead elsewhere, and the texts of assertions do not count.

    Law: nodes of two programs with one digest have equal values for equal inputs and parameters.
    """
    needed = set(_leading_to(program.graph, results))
    chosen = [node for node in program.graph.nodes if node in needed]
    held = program.graph_signature.inputs_to_buffers | program.graph_signature.inputs_to_lifted_tensor_constants
    values = program.state_dict | program.constants
    contents = [
        _content(values.get(held[node.name])) for node in chosen if node.op == "placeholder" and node.name in held
    ]
    return sha256("\n".join([_lines(chosen, results), *contents, use]))[:_DIGITS]


def _leading_to(graph: torch.fx.Graph, results: Sequence[torch.fx.Node]) -> Iterator[torch.fx.Node]:
    """Yield the nodes that the results are computed from; whatever mutates a tensor before is one of them."""
    needed = set(results)
    for node in reversed(graph.nodes):
        if node in needed or (needed and nodes.changed_operands(node)):
            needed.update(node.all_input_nodes)
            yield node


def _lines(chosen: Sequence[torch.fx.Node], results: Any) -> str:
    """Return these nodes as text, each by its number, and the results."""
    numbers = {node: f"%{number}" for number, node in enumerate(chosen)}

    def numbered(value: Any) -> Any:
        return torch.fx.map_arg(value, numbers.__getitem__)

    lines = [f"{_text(node)} {numbered(node.args)} {numbered(node.kwargs)}" for node in chosen]
    return "\n".join([*lines, str(numbered(results))])


def _text(node: torch.fx.Node) -> str:
    """Return what a node does, but for its operands."""
    if node.op == "placeholder":
        return str(node.target)
    if node.op != "get_attr":
        return f"{getattr(node.target, '__module__', '')}.{getattr(node.target, '__name__', node.target)}"
    body = getattr(node.graph.owning_module, str(node.target))
    if not isinstance(body, torch.fx.GraphModule):
        return _content(body)
    return _lines([each for each in body.graph.nodes if each.users or each.op == "output"], ())


def _content(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return str(type(value))
    try:
        return f"{value.dtype} {value.tolist()}"
    except (RuntimeError, TypeError):  # a fake or a sparse tensor lists no elements
        return f"{value.dtype} {value.shape}"
