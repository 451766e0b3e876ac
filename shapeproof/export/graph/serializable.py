"""Writes operations on symbolic numbers that `torch.export.save` does not know by those that it knows.

Each is the same number for each operand, computed by Python at run time. Nothing is decided here.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch

from shapeproof.export.graph.nodes import insert_call

_Write = Callable[[Callable[..., torch.fx.Node], torch.fx.Node], Any]
"""Given how to add a call before a node, and the node: what stands for it."""


def make_serializable(program: torch.export.ExportedProgram) -> None:
    """Rewrite the program, its bodies too."""
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            for node in list(module.graph.nodes):
                if node.target in _WRITTEN and "val" in node.meta:
                    _rewrite(node)
            module.recompile()


def _rewrite(node: torch.fx.Node) -> None:
    written = _WRITTEN[node.target](functools.partial(_call, node), node)
    if isinstance(written, torch.fx.Node):
        written.meta["val"] = node.meta["val"]
        node.replace_all_uses_with(written)
        node.graph.erase_node(node)


def _call(before: torch.fx.Node, target: Any, *args: Any) -> torch.fx.Node:
    return insert_call(before, target, args)


def _abs(call: Callable[..., Any], node: torch.fx.Node) -> Any:
    """The larger of the number and its negative; of two zeros as floats the sum with 0.0 is the positive one."""
    (value,) = node.args
    larger = call(torch.sym_max, value, call(operator.neg, value))
    return call(operator.add, larger, 0.0) if isinstance(node.meta["val"], torch.SymFloat) else larger


def _floor(call: Callable[..., Any], node: torch.fx.Node) -> Any:
    return _lower(call, node.args[0])


def _lower(call: Callable[..., Any], value: Any) -> Any:
    whole = call(torch.sym_int, value)
    return call(torch.sym_ite, call(operator.lt, value, whole), call(operator.sub, whole, 1), whole)


def _ceil(call: Callable[..., Any], node: torch.fx.Node) -> Any:
    whole = call(torch.sym_int, node.args[0])
    return call(torch.sym_ite, call(operator.gt, node.args[0], whole), call(operator.add, whole, 1), whole)


def _round(call: Callable[..., Any], node: torch.fx.Node) -> Any:
    """To the nearest, and of two to the even one; what is over the lower is exact."""
    value, *digits = node.args
    if any(digit is not None for digit in digits) or isinstance(node.meta["val"], torch.SymFloat):
        return None
    lower = _lower(call, value)
    over = call(operator.sub, value, lower)
    even = call(operator.add, lower, call(operator.mod, lower, 2))
    upper = call(torch.sym_ite, call(operator.gt, over, 0.5), call(operator.add, lower, 1), even)
    return call(torch.sym_ite, call(operator.lt, over, 0.5), lower, upper)


def _sum(call: Callable[..., Any], node: torch.fx.Node) -> Any:
    return functools.reduce(functools.partial(call, operator.add), node.args[0])  # type: ignore[arg-type]


_WRITTEN: Mapping[Any, _Write] = {
    operator.abs: _abs,
    math.floor: _floor,
    math.ceil: _ceil,
    round: _round,
    torch.sym_sum: _sum,
}
