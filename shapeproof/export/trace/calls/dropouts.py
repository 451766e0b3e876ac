"""Dropout that drops nothing: eager returns the operand itself, and torch's fake returns a copy.

A write into the result is then a write into the operand. A trace keeps the operator in the graph; if the graph writes
where the difference shows, a second trace returns the operand and has no operator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from shapeproof.export.graph.aliasing import observes_aliasing
from shapeproof.export.ops import schemas
from shapeproof.export.ops.table import known_of


def drops_nothing(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """True if a call is a dropout that returns its operand; a probability that torch rejects is left to torch.

    >>> dropout, x = torch.ops.aten.dropout.default, torch.ones(2)
    >>> drops_nothing(dropout, (x, 0.5, False), {}), drops_nothing(dropout, (x, 0.5, True), {})
    (True, False)
    """
    if not known_of(func).drops:
        return False
    p, train = map(schemas.by_name(func, args, kwargs).get, ("p", "train"))
    return isinstance(p, int | float) and 0 <= p <= 1 and isinstance(train, bool) and (p == 0 or not train)


def hides_a_write(graph: torch.fx.Graph) -> bool:
    """True if a graph has a dropout that drops nothing, and writes so that a copy differs from the operand."""
    calls = (node for node in graph.nodes if node.op == "call_function")
    return any(drops_nothing(node.target, node.args, node.kwargs) for node in calls) and observes_aliasing(graph)
