"""Views that are the same at every size: `view` and `reshape` of contiguous tensors, and dimensions that are moved.

Law: if `is_plain` is true of a call and of what torch noted as its result, eager raises nothing, at any size, and its
result shares the operand's storage and has the noted sizes, strides and offset; strides that reach no element may
differ. So no decision that torch made in its fake kernel makes a difference, and the operator need not be run again.

The rules compare terms, which are the same at every size, and the facts about sizes are the domain's: no answer that
torch assumed in the call supports them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import torch

from shapeproof.constraints.terms import ONE, Term
from shapeproof.export.ops import schemas
from shapeproof.export.ops.shape_functions import Size, Sizes, lie_row_by_row
from shapeproof.export.shim.storages import kind, storages

Order = Callable[[Mapping[str, Any]], list[int | None]]
"""The operand's dimension for each dimension of the result; None for a dimension of size 1 that is put in."""

_aten = torch.ops.aten
_RESHAPING: Mapping[Any, str] = {
    _aten.view.default: "size",
    _aten._unsafe_view.default: "size",  # noqa: SLF001 - the operator's name
    _aten.reshape.default: "shape",
}
"""With the argument that holds the sizes asked for."""


def is_plain(func: Any, arguments: tuple[Any, Any], result: Any, sizes: Sizes) -> bool:
    """True if a call gives the noted result at every size.

    >>> from shapeproof.constraints.terms import constant
    >>> x = torch.ones(2, 3)
    >>> is_plain(torch.ops.aten.view.default, ((x, [3, 2]), {}), x.view(3, 2), Sizes(constant, lambda _: False))
    True
    """
    if func not in _RESHAPING and func not in _MOVING:
        return False
    call = schemas.by_name(func, *arguments)
    operand = call["self"]
    if not isinstance(result, torch.Tensor) or not _share(operand, result):
        return False
    if sizes.read(operand.storage_offset()) is not sizes.read(result.storage_offset()):
        return False
    if func in _MOVING:
        return _is_moved(operand, result, _MOVING[func](call), sizes)
    return _keeps_rows(operand, result, sizes) and _fits(operand, call[_RESHAPING[func]], result, sizes)


def _share(operand: torch.Tensor, result: torch.Tensor) -> bool:
    return kind(operand) == kind(result) and bool(storages(operand)) and storages(operand) == storages(result)


def _keeps_rows(operand: torch.Tensor, result: torch.Tensor, sizes: Sizes) -> bool:
    """True if two tensors agree in their first dimensions, and in the others both are contiguous, row by row.

    For the strides [96, 8, 1] of a part of each row, a view with the strides [96, 32, 8, 1] is one.
    """
    mine, others = (_dims(each, sizes) for each in (operand, result))
    pairs = zip(mine, others, strict=False)
    same = sum(1 for _ in itertools.takewhile(lambda pair: _alike(*pair), pairs))
    return all(lie_row_by_row([d[0] for d in dims[same:]], [d[1] for d in dims[same:]]) for dims in (mine, others))


def _dims(tensor: torch.Tensor, sizes: Sizes) -> list[tuple[Term, Term]]:
    """Return the size and the stride of each dimension."""
    return [(sizes.read(size), sizes.read(stride)) for size, stride in zip(tensor.shape, tensor.stride(), strict=True)]


def _alike(one: tuple[Term, Term], other: tuple[Term, Term]) -> bool:
    return one[0] is other[0] and one[1] is other[1]


def _fits(operand: torch.Tensor, asked: Sequence[Size], result: torch.Tensor, sizes: Sizes) -> bool:
    """True if a tensor has the sizes asked for, and as many elements as its operand; -1 is unique at every size."""
    noted = [*map(sizes.read, result.shape)]
    if len(asked) != len(noted):
        return False
    given = [(sizes.read(size), term) for size, term in zip(asked, noted, strict=True) if not _is_left_open(size)]
    others = prod((term for term, _ in given), start=ONE)
    left = len(noted) - len(given)
    return (
        left <= 1
        and all(term is other and sizes.at_least(term, 0) for term, other in given)
        and (not left or sizes.at_least(others, 1))
        and prod(noted, start=ONE) is prod(map(sizes.read, operand.shape), start=ONE)
    )


def _is_left_open(size: Size) -> bool:
    return isinstance(size, int) and size == -1


def _is_moved(operand: torch.Tensor, result: torch.Tensor, order: Sequence[int | None], sizes: Sizes) -> bool:
    """True if the dimensions of a result are those of its operand, in this order."""
    mine, others = (_dims(each, sizes) for each in (operand, result))
    return len(order) == len(others) and all(
        other[0] is ONE if at is None else _alike(mine[at], other) for at, other in zip(order, others, strict=True)
    )


def _unsqueezed(call: Mapping[str, Any]) -> list[int | None]:
    rank = call["self"].dim()
    order: list[int | None] = list(range(rank))
    order.insert(call["dim"] % (rank + 1), None)
    return order


def _transposed(call: Mapping[str, Any]) -> list[int | None]:
    order: list[int | None] = list(range(call["self"].dim()))
    if order:
        a, b = call["dim0"], call["dim1"]
        order[a], order[b] = order[b], order[a]
    return order


def _permuted(call: Mapping[str, Any]) -> list[int | None]:
    return [dim % call["self"].dim() for dim in call["dims"]]


_MOVING: Mapping[Any, Order] = {
    _aten.unsqueeze.default: _unsqueezed,
    _aten.transpose.int: _transposed,
    _aten.permute.default: _permuted,
}
