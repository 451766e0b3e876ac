"""Views that are the same at every size: `view` and `reshape` of contiguous tensors, and dimensions that are moved.

Law: if `is_plain` is true of a call and of what torch noted as its result, eager raises nothing, at any size, and its
result shares the operand's storage and has the noted sizes, strides and offset; strides that reach no element may
differ. So no decision that torch made in its fake kernel makes a difference, and the operator need not be run again.

The rules compare sizes by what is known of the whole domain: no answer that torch assumed in the call supports them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import prod
from typing import Any

import torch

from shapeproof.constraints.terms import ONE, Term
from shapeproof.export.ops import schemas
from shapeproof.export.ops.layouts import Size, Sizes, lie_row_by_row, same_storage
from shapeproof.export.ops.table import known_of


def is_plain(func: Any, arguments: tuple[Any, Any], result: Any, sizes: Sizes) -> bool:
    """True if a call gives the noted result at every size.

    >>> from shapeproof.constraints.terms import constant
    >>> x = torch.ones(2, 3)
    >>> is_plain(torch.ops.aten.view.default, ((x, [3, 2]), {}), x.view(3, 2), Sizes(constant, lambda _: False))
    True
    """
    order, asked = known_of(func).order, known_of(func).as_asked
    if order is None and asked is None:
        return False
    call = schemas.by_name(func, *arguments)
    operand = call["self"]
    if not isinstance(result, torch.Tensor) or not same_storage(operand, result):
        return False
    if not sizes.equal(operand.storage_offset(), result.storage_offset()):
        return False
    if order is not None:
        return _is_moved(operand, result, order(call), sizes)
    return asked is not None and _keeps_rows(operand, result, sizes) and _fits(operand, call[asked], result, sizes)


def _keeps_rows(operand: torch.Tensor, result: torch.Tensor, sizes: Sizes) -> bool:
    """True if two tensors agree in their first dimensions, and in the others both are contiguous, row by row.

    For the strides [96, 8, 1] of a part of each row, a view with the strides [96, 32, 8, 1] is one.
    """
    mine, others = (_dims(each, sizes) for each in (operand, result))
    pairs = zip(mine, others, strict=False)
    same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
    return all(lie_row_by_row([d[0] for d in dims[same:]], [d[1] for d in dims[same:]]) for dims in (mine, others))


def _dims(tensor: torch.Tensor, sizes: Sizes) -> list[tuple[Term, Term]]:
    """Return the size and the stride of each dimension."""
    return [(sizes.read(size), sizes.read(stride)) for size, stride in zip(tensor.shape, tensor.stride(), strict=True)]


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
    mine, others = ([*zip(each.shape, each.stride(), strict=True)] for each in (operand, result))
    return len(order) == len(others) and all(
        sizes.equal(other[0], 1) if at is None else sizes.alike(mine[at], other)
        for at, other in zip(order, others, strict=True)
    )
