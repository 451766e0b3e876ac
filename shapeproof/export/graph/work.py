"""Estimates the work of a run: the multiplications in convolutions and products of matrices."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from shapeproof.constraints.meaning.evaluate import value_at
from shapeproof.constraints.terms import Term
from shapeproof.export.graph.nodes import metadata
from shapeproof.export.ops.table import kind_of

_OVER_WEIGHT = frozenset({"linear", "convolution"})
"""Each element of the result sums over all but the first dim of the weight, the second operand."""
_OVER_COLUMNS = {"mm": 0, "matmul": 0, "addmm": 1, "baddbmm": 1}
"""Each element of the result sums over the last dim of this operand."""
_ATTENTION = "attention"
_PRODUCTS = frozenset({*_OVER_WEIGHT, *_OVER_COLUMNS, _ATTENTION})


class Work:
    """The products of a graph. `read` returns the term of a size."""

    def __init__(self, graph: torch.fx.Graph, read: Callable[[Any], Term]) -> None:
        self._products = [tuple(map(read, sizes)) for node in graph.nodes for sizes in _sizes(node)]

    def at(self, point: Mapping[str, int]) -> int:
        """Return the number of multiplications at a point; a product whose sizes come from data counts as none."""
        terms = {each for sizes in self._products for each in sizes}
        known = {term: value_at(term, point) or 0 for term in terms}
        return sum(math.prod(known[each] for each in sizes) for sizes in self._products)


def _sizes(node: torch.fx.Node) -> Iterator[tuple[Any, ...]]:
    """The sizes whose product is the number of multiplications of a node, if it multiplies many."""
    result = metadata(node) if node.op == "call_function" and is_product(node.target) else None
    if isinstance(result, torch.Tensor):
        yield from multiplied(node.target, [*map(metadata, node.args)], result)


def is_product(target: Any) -> bool:
    """True if a call of the target may multiply many numbers, by its kind."""
    return kind_of(target) in _PRODUCTS


def multiplied(target: Any, operands: Sequence[Any], result: torch.Tensor) -> Iterator[tuple[Any, ...]]:
    """Yield the sizes whose product is the number of multiplications of a call, if it multiplies many.

    >>> ((*sizes,),) = multiplied(torch.ops.aten.mm.default, [torch.ones(2, 3), torch.ones(3, 4)], torch.ones(2, 4))
    >>> sizes
    [2, 4, 3]
    """
    name = kind_of(target)
    if name in _OVER_WEIGHT:
        yield *result.shape, *_shape(operands, 1)[1:]
    elif name in _OVER_COLUMNS:
        yield *result.shape, *_shape(operands, _OVER_COLUMNS[name])[-1:]
    elif name == _ATTENTION:
        yield *result.shape, 2, *_shape(operands, 1)[-2:-1]


def _shape(operands: Sequence[Any], index: int) -> tuple[Any, ...]:
    value = operands[index] if index < len(operands) else None
    return tuple(value.shape) if isinstance(value, torch.Tensor) else ()
