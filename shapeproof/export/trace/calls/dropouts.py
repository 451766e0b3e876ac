"""Dropout that drops nothing: eager returns the operand itself, and torch's fake returns a copy.

A write into the result is then a write into the operand. A trace keeps the operator in the graph; if the graph writes
where the difference shows, a second trace returns the operand and has no operator.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.nn import functional

from shapeproof.export.graph.aliasing import observes_aliasing
from shapeproof.export.ops import schemas
from shapeproof.export.ops.table import known_of

_OF_ANY_RANK = (
    functional.dropout,
    functional.alpha_dropout,
    functional.feature_alpha_dropout,
    torch.dropout,
    torch.alpha_dropout,
    torch.feature_dropout,
    torch.feature_alpha_dropout,
)
_OF_RANKS: Mapping[Any, Sequence[int]] = {
    functional.dropout1d: (3,),
    functional.dropout2d: (4,),
    functional.dropout3d: (5,),
}
"""Other ranks are an error, a warning, or a result with another view of the operand."""
_DROPPING: Mapping[Any, Sequence[int]] = {**dict.fromkeys(_OF_ANY_RANK, ()), **_OF_RANKS}


def undropped(func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.Tensor | None:
    """Return the operand of a call of torch that drops nothing of it; None for any other call.

    >>> x = torch.ones(2)
    >>> undropped(functional.dropout, (x, 0.5), {"training": False}) is x, undropped(functional.dropout, (x, 0.5), {})
    (True, None)
    """
    if func not in _DROPPING:
        return None
    given = _given(func, args, kwargs)
    operand = given["input"]
    ranks = _DROPPING[func]
    if not isinstance(operand, torch.Tensor) or (ranks and operand.dim() not in ranks):
        return None
    return operand if _is_idle(given["p"], given["train"]) else None


def _given(func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments by name, with the defaults of torch.nn.functional; torch.dropout says `train`."""
    names = ("input", "p", "train")
    defaults = {}
    if func in _DROPPING and inspect.isfunction(func):
        parameters = inspect.signature(func).parameters.values()
        defaults = {each.name: each.default for each in parameters if each.default is not each.empty}
    given = {**defaults, **kwargs}
    given["train"] = given.pop("training", given.get("train"))
    return {"input": None, "p": None, **given, **dict(zip(names, args, strict=False))}


def _is_idle(p: Any, train: Any) -> bool:
    """True if nothing is dropped; a probability that torch rejects is left to torch."""
    return isinstance(p, int | float) and 0 <= p <= 1 and isinstance(train, bool) and (p == 0 or not train)


def hides_a_write(graph: torch.fx.Graph) -> bool:
    """True if a graph has a dropout that drops nothing, and writes so that a copy differs from the operand."""
    idle = (
        _is_idle(*(schemas.by_name(node.target, node.args, node.kwargs)[name] for name in ("p", "train")))
        for node in graph.nodes
        if node.op == "call_function" and known_of(node.target).drops
    )
    return any(idle) and observes_aliasing(graph)
