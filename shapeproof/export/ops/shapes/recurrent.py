"""Rules for recurrent operators: torch unrolls them step by step, which freezes the sequence length.

Law: if a call has the form of nn.LSTM, nn.GRU and nn.RNN, its results have the sizes, strides and dtype of eager's
results, for every length and every batch size. Any other call is left to torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from shapeproof.export.ops import schemas
from shapeproof.export.ops.table import known_of
from shapeproof.export.shim.process.modes import casts


def results(func: Any, args: Any, kwargs: Any, equal: Callable[[Any, Any], bool]) -> tuple[torch.Tensor, ...] | None:
    """Return a recurrent operator's results with undefined elements; None where torch must run it.

    `equal` tells whether two sizes are known to be equal.

    Raises:
        RuntimeError: the sequence has no steps, as in eager.

    >>> lstm = torch.nn.LSTM(3, 4, batch_first=True)
    >>> zeros = torch.zeros(1, 2, 4)
    >>> args = (torch.ones(2, 7, 3), [zeros, zeros], list(lstm.parameters()), True, 1, 0.0, False, False, True)
    >>> [tuple(each.shape) for each in results(torch.ops.aten.lstm.input, args, {}, lambda a, b: a == b)]
    [(2, 7, 4), (1, 2, 4), (1, 2, 4)]
    """
    kind = known_of(func).steps
    if kind is None:
        return None
    named = schemas.by_name(func, args, kwargs)
    x, hidden = named["input"], named["hx"]
    hidden = list(hidden) if isinstance(hidden, list | tuple) else [hidden]
    if not _fits(x, hidden, named, kind, equal):
        return None
    steps, batch = (x.shape[1], x.shape[0]) if named["batch_first"] else (x.shape[0], x.shape[1])
    torch._check(steps > 0, lambda: "Expected sequence length to be larger than 0 in RNN")
    out = x.new_empty((steps, batch, _directions(named) * hidden[0].shape[2]))
    return (out.transpose(0, 1) if named["batch_first"] else out, *(x.new_empty(each.shape) for each in hidden))


def unrolled(graph: torch.fx.Graph) -> set[Any]:
    """Return the operators of a graph that torch would unroll for a number of steps that is no constant."""
    found = set()
    for node in graph.nodes:
        kind = known_of(node.target).steps if node.op == "call_function" else None
        if kind is not None:
            named = schemas.by_name(node.target, node.args, node.kwargs)
            steps = named["input"].meta["val"].shape[1 if named["batch_first"] else 0]
            found |= {node.target} if isinstance(steps, torch.SymInt) else set()
    return found


def _directions(named: Mapping[str, Any]) -> int:
    return 2 if named["bidirectional"] else 1


def _fits(
    x: torch.Tensor,
    hidden: Sequence[torch.Tensor],
    named: Mapping[str, Any],
    kind: tuple[int, int],
    equal: Callable[[Any, Any], bool],
) -> bool:
    """True if the operands are those of such a module: one hidden state per layer, as wide as the weights."""
    tensors = [x, *hidden, *named["params"]]
    alike = all((t.dtype, t.device, t.layout) == (x.dtype, x.device, torch.strided) for t in tensors)
    ranks = [t.dim() for t in (x, *hidden)]
    if not alike or casts(x.device.type) or ranks != [3] * (1 + kind[0]):
        return False
    directions, batch = _directions(named), x.shape[0 if named["batch_first"] else 1]
    out, cell = hidden[0].shape[2], hidden[-1].shape[2]
    widths = [x.shape[2]] + [directions * out] * (named["num_layers"] - 1)
    weights = [
        shape for width in widths for _ in range(directions) for shape in _weights(width, out, cell, kind[1], named)
    ]
    states = [(directions * named["num_layers"], batch, each.shape[2]) for each in hidden]
    pairs = [*zip(named["params"], weights, strict=False), *zip(hidden, states, strict=True)]
    return len(named["params"]) == len(weights) and all(
        t.dim() == len(shape) and all(map(equal, t.shape, shape)) for t, shape in pairs
    )


def _weights(width: Any, out: Any, cell: Any, gates: int, named: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Return the weight shapes of one layer and direction, with a projection if the output is narrower."""
    rows = gates * cell
    biases = [(rows,), (rows,)] if named["has_biases"] else []
    projection = [] if out == cell else [(out, cell)]
    return [(rows, width), (rows, out), *biases, *projection]
