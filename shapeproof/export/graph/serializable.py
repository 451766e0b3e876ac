"""Rewrites operations on symbolic numbers that `torch.export.save` cannot write by operations that it can.

Law: each replacement has the same value for all operands. Python computes it at run time.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch

from shapeproof.export.graph import nodes
from shapeproof.export.graph.emit import absolute
from shapeproof.export.graph.nodes import insert_call
from shapeproof.export.shim.trees import graph_modules, leaves

_SQUEEZES = [getattr(torch.ops.aten.squeeze, name) for name in ("default", "dim", "dims")]
_Write = Callable[[Callable[..., torch.fx.Node], torch.fx.Node], Any]
"""Given a function that adds a call before a node, and the node: returns the replacement."""


def make_serializable(program: torch.export.ExportedProgram) -> None:
    """Rewrite the program and its bodies."""
    for module in graph_modules(program.graph_module):
        found = [node for node in module.graph.nodes if _is_to_write(node)]
        for node in found:
            written = _rewrite(node)
            if module is program.graph_module:
                program.graph_signature.replace_all_uses(node.name, written.name)
        if found:
            module.recompile()


def name_squeezed(program: torch.export.ExportedProgram) -> None:
    """Name the dims that each `squeeze` took away where it was traced; at other sizes, it takes no more.

    Law: each result has the rank that is noted. Whether eager takes more away is a question of the trace.
    """
    for node in nodes.calls_of(program.graph, *_SQUEEZES):
        x, *dims = nodes.arguments(node).values()
        sizes = list(x.meta["val"].shape)
        asked = leaves(dims) or range(len(sizes))
        ones = [dim for dim in asked if type(sizes[dim]) is int and sizes[dim] == 1]
        if len(ones) < len(asked) and len(sizes) - len(ones) == node.meta["val"].dim():
            node.target, node.args = (_SQUEEZES[-1], (x, ones)) if ones else (torch.ops.aten.alias.default, (x,))
            node.kwargs = {}
    program.graph_module.recompile()


def _is_to_write(node: torch.fx.Node) -> bool:
    if node.target is operator.pow and not (isinstance(node.args[0], int | float) and node.args[0] < 0):
        return False
    return node.target in _WRITTEN and "val" in node.meta


def _rewrite(node: torch.fx.Node) -> Any:
    written = _WRITTEN[node.target](functools.partial(_call, node), node)
    node.replace_all_uses_with(written)
    node.graph.erase_node(node)
    return written


def _call(before: torch.fx.Node, target: Any, *args: Any) -> torch.fx.Node:
    return insert_call(before, target, args)


def _abs(call: Callable[..., Any], node: torch.fx.Node) -> Any:
    return absolute(call, *node.args, real=isinstance(node.meta["val"], torch.SymFloat))


def _sum(call: Callable[..., Any], node: torch.fx.Node) -> Any:
    return functools.reduce(functools.partial(call, operator.add), node.args[0])  # type: ignore[arg-type]


def _power(call: Callable[..., Any], node: torch.fx.Node) -> Any:
    """Raise a negative number, as a node: torch writes a number without brackets, and `-2 ** n` is never positive."""
    base, exponent = node.args
    return call(operator.pow, call(operator.neg, -base), exponent)  # type: ignore[operator]


_WRITTEN: Mapping[Any, _Write] = {
    operator.abs: _abs,
    torch.sym_sum: _sum,
    operator.pow: _power,
}
