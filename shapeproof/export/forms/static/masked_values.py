"""Operators that reduce, order or multiply what has sizes from data; invalid elements are masked first (masking.py)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from shapeproof.export.forms.static.masking import (
    Forms,
    Given,
    Operand,
    Refused,
    Tensor,
    broadcast_dims,
    dims_of,
    filled,
    meant,
    number_of,
    rows_of,
    valid_first,
    wide,
)
from shapeproof.export.shim.guarding import assert_all

# ---------------------------------------------------------------------- reductions


def mean_of(operand: Operand, dims: list[int], *, keepdim: bool = False, dtype: torch.dtype | None = None) -> Tensor:
    """Return the mean of the valid elements; torch rounds it once, not its sum."""
    total = filled(operand, 0).sum(dims, keepdim, dtype=wide(dtype or operand.value.dtype))
    return total / number_of(operand, dims)


def _mean(given: Given) -> Tensor:
    operand = given.tensor("self")
    dims = given.dims(operand)
    return mean_of(operand, dims, keepdim=bool(given["keepdim"]), dtype=given["dtype"])


def _logsumexp(given: Given) -> Any:
    operand = given.tensor("self")
    real = operand.value if operand.value.is_floating_point() else operand.value.to(torch.get_default_dtype())
    return given.run(self=filled(Operand(real, operand.dims), float("-inf")))


def _norm(given: Given) -> Tensor:
    """`norm`: of one element torch gives the magnitude, whose power may be infinite or 0."""
    operand, order = given.tensor("self"), given["ord"] if "ord" in given.arguments else given["p"]
    if order is not None and not 0 < order < math.inf:
        raise Refused("its order is not positive, or infinite")
    dims, keepdim = given.dims(operand), bool(given["keepdim"])
    one, power = (
        torch.linalg.vector_norm(filled(operand, 0), each, dims, keepdim, dtype=given["dtype"])
        for each in (math.inf, 2 if order is None else order)
    )
    return torch.where(torch.as_tensor(number_of(operand, dims) == 1, device=one.device), one, power)


def _variance(given: Given) -> Tensor:
    """`var`: torch adds squares in double, whose results for large or close numbers others have not."""
    operand = given.tensor("self")
    if operand.value.is_complex():
        raise Refused("it is of complex numbers")
    dims, keepdim = given.dims(operand), bool(given["keepdim"])
    value = Operand(operand.value.double(), operand.dims)
    squares = Operand((value.value - mean_of(value, dims, keepdim=True)).square(), operand.dims)
    correction = given["correction"] if given["unbiased"] is None else int(given["unbiased"])
    freedom = number_of(operand, dims) - (1 if correction is None else correction)
    return filled(squares, 0).sum(dims, keepdim) / torch.as_tensor(freedom, device=operand.value.device).clamp(min=0)


def _copied(operand: Operand, dims: Sequence[int]) -> Tensor:
    """Replace invalid rows by the first row; assert that a row exists, since the result is one of the elements."""
    value = operand.value
    for dim in dims:
        mask = meant(operand, [dim])
        if mask is not None:
            if not value.shape[dim]:
                raise Refused("there is nothing to choose from")
            assert_all(operand.dims[dim] > 0, "expected a reduction dim with at least one element")
            value = torch.where(mask, value, value.narrow(dim, 0, 1))
    return value


def _chosen(given: Given) -> Any:
    """`amax`, `max` and their like, which return one of the elements; `max` along a dim also its index."""
    operand = given.tensor("self")
    dims = given.dims(operand)
    found = given.run(self=_copied(operand, dims))
    return found if isinstance(found, Tensor) else (found[0], _within(found[1], operand, dims[0]))


def _within(index: Tensor, operand: Operand, dim: int) -> Tensor:
    """Return a valid index: an invalid row is a copy of the first, so 0 replaces its index."""
    return torch.where(index < operand.dims[dim], index, 0) if dim in operand.dims else index


def _placed(given: Given) -> Tensor:
    """`argmax`, which returns the index of an element."""
    operand = given.tensor("self")
    if given["dim"] is None and operand.value.dim() != 1:
        raise Refused("it counts elements of all dims")
    (dim,) = given.dims(operand)
    return _within(given.run(self=_copied(operand, [dim])), operand, dim)


def _soft(given: Given) -> Any:
    """`softmax`, and what autograd calls for it: invalid elements get no weight."""
    operand = given.tensor("self")
    dtype = given["dtype"] or operand.value.dtype
    if not dtype.is_floating_point:
        raise Refused("it is of integers")
    value = Operand(operand.value.to(dtype), operand.dims)
    return given.run(self=filled(value, float("-inf"), given.dims(operand)))


def _soft_gradient(given: Given) -> Any:
    """The gradient of `softmax`: it adds the gradients of the results."""
    broadcast_dims([given.tensor("grad_output"), given.tensor("output")])
    return given.run()


# ---------------------------------------------------------------------- order


def _counts(operand: Operand, dims: Any) -> list[int]:
    """Return the counts of the dims by identity, so that they compare: one count is one tensor."""
    return [id(operand.dims.get(dim)) for dim in dims]


def _cat(given: Given) -> Tensor:
    operands = [each for each in given["tensors"] if isinstance(each, Operand)]
    (dim,) = dims_of(given["dim"], operands[0].value.dim())
    first = {other: count for other, count in operands[0].dims.items() if other != dim}
    if any(_counts(each, first) != _counts(operands[0], first) for each in operands):
        raise Refused("its operands have other sizes from data")
    value = torch.cat([each.value for each in operands], dim)
    masks = [
        rows_of(each, dim)
        if dim in each.dims
        else torch.ones(each.value.shape[dim], dtype=torch.bool, device=each.value.device)
        for each in operands
    ]
    return value.index_select(dim, valid_first(torch.cat(masks))[: given.limits[0][dim]])


def _in_order(operand: Operand, dim: int, *, descending: bool) -> tuple[Tensor, Tensor]:
    values, places = operand.value.sort(dim=dim, descending=descending, stable=True)
    mask = meant(operand, [dim])
    if mask is not None:
        order = valid_first(mask.expand_as(values).gather(dim, places), dim)
        values, places = values.gather(dim, order), places.gather(dim, order)
    return values, places


def _sort(given: Given) -> tuple[Tensor, Tensor]:
    operand = given.tensor("self")
    (dim,) = given.dims(operand)
    return _in_order(operand, dim, descending=bool(given["descending"]))


def _topk(given: Given) -> tuple[Tensor, Tensor]:
    operand, k = given.tensor("self"), given["k"]
    (dim,) = given.dims(operand)
    limit = given.limits[0][dim]
    if limit > operand.value.shape[dim]:
        raise Refused("it may choose more than there are")
    if dim in operand.dims:
        assert_all(operand.dims[dim] >= k, "selected index k out of range")
    values, places = _in_order(operand, dim, descending=bool(given["largest"]))
    return values.narrow(dim, 0, limit), places.narrow(dim, 0, limit)


# ---------------------------------------------------------------------- products


def _matrices(given: Given) -> Any:
    """A product of matrices; invalid elements of the inner dim are zeroed."""
    left = given.tensor("self")
    right = given.tensor("mat2" if "mat2" in given.arguments else "other")
    inner = left.dims.get(left.value.dim() - 1), right.dims.get(max(0, right.value.dim() - 2))
    if inner[0] is not inner[1]:
        raise Refused("it sums over sizes from data that are not one")
    if left.value.dim() > 2 or right.value.dim() > 2:
        raise Refused("it is of a batch")
    return given.run()


def _attention(given: Given) -> Any:
    """`scaled_dot_product_attention` of a set with itself; invalid keys get no weight."""
    query, key, value = (given.tensor(name) for name in ("query", "key", "value"))
    mask = meant(key, [key.value.dim() - 2])
    rank = key.value.dim()
    if {id(each.dims.get(rank - 2)) for each in (query, key, value)} != {id(key.dims.get(rank - 2))}:
        raise Refused("it looks from one set at another")
    if any(set(each.dims) != {rank - 2} for each in (query, key, value)):
        raise Refused("it has more than one size from data")
    if mask is None or any(given[name] for name in ("is_causal", "dropout_p", "enable_gqa")):
        raise Refused("it is causal, drops elements or groups heads")
    if given["attn_mask"] is not None:
        raise Refused("it has a mask of its own")
    return given.run(query=query.value, attn_mask=mask.transpose(-1, -2))


VALUES: Forms = {
    **dict.fromkeys(("sum", "count"), Given.run),
    "product": lambda given: given.run(self=filled(given.tensor("self"), 1)),  # the neutral element
    "mean": _mean,
    "logsumexp": _logsumexp,
    "norm": _norm,
    "variance": _variance,
    "deviation": lambda given: _variance(given).sqrt(),
    "extreme": _chosen,
    "place": _placed,
    "softmax": _soft,
    "softmax gradient": _soft_gradient,
    "cat": _cat,
    "sort": _sort,
    "argsort": lambda given: _sort(given)[1],
    "topk": _topk,
    **dict.fromkeys(("mm", "matmul"), _matrices),
    "attention": _attention,
}
